# SPDX-License-Identifier: Apache-2.0
"""Migration of an uplink's IP configuration to a bridge and back, in a network namespace of the test's own."""

from __future__ import annotations

import contextlib
import os
import subprocess

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.errors import NetlinkError
from ansible_collections.heddle.ovn.plugins.module_utils.netlink import kernel, uplink_migration
from ansible_collections.heddle.ovn.plugins.module_utils.netlink.device import (
    add_address,
    advertised_interfaces,
    default_gateways,
    read_device,
)
from ansible_collections.heddle.ovn.plugins.module_utils.netlink.handle import HostKernel
from ansible_collections.heddle.ovn.plugins.module_utils.netlink.uplink_migration import move_device

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")

HOST = f"uplink{os.getpid()}"
ADDRESSES = ["198.18.7.1/24", "198.18.8.1/25", "fd00:6864:7::1/64"]
ROUTES = [
    "default via 198.18.7.254 proto static metric 10",
    "203.0.113.0/24 via 198.18.8.9 src 198.18.7.1 mtu 1300",
    "203.0.113.0/25 dev uplink scope link table 77",
    "192.0.2.9 via 203.0.113.77 dev uplink onlink",
    "-6 default via fd00:6864:7::fe proto static metric 20",
    "-6 2001:db8:1::/48 via fd00:6864:7::fd",
]


def ip(*words: str) -> str:
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True).stdout


@pytest.fixture
def uplink():
    """A host with one uplink, its addresses and routes, and the device of a bridge that has nothing yet."""
    kernel.create_namespace(HOST, "")
    try:
        with kernel.in_netns(HOST):
            for name in ("uplink", "bridge"):
                ip("link", "add", name, "type", "veth", "peer", "name", f"{name}-far")
                ip("link", "set", f"{name}-far", "up")
            ip("link", "set", "uplink", "mtu", "1400", "up")
            for address in ADDRESSES:
                ip("address", "add", address, "dev", "uplink", *(["nodad"] if ":" in address else []))
            for route in ROUTES:
                words = route.split()
                family = [words.pop(0)] if words[0] == "-6" else []
                ip(*family, "route", "add", *words, *([] if "dev" in words else ["dev", "uplink"]))
            yield
    finally:
        with contextlib.suppress(OSError):
            kernel.remove_namespace(HOST)


def listing(device: str) -> list[str]:
    """Return what is to be equal: routes and addresses without the device's own name."""
    routes = [line.strip().replace(f"dev {device} ", "") for family in ("-4", "-6")
              for line in ip(family, "route", "show", "table", "all", "dev", device).splitlines()
              if "fe80::" not in line and "multicast" not in line and "table local" not in line]  # fmt: skip
    return sorted(line for line in routes) + sorted(kernel.read_links(None)[device]["addresses"])


def test_ip_configuration_is_migrated_and_migrated_back(uplink):
    before = listing("uplink")
    assert len(before) > len(ADDRESSES) + len(ROUTES)
    assert move_device("uplink", "bridge", write=False).changed
    assert listing("uplink") == before
    assert move_device("uplink", "bridge", write=True).changed
    assert listing("bridge") == before
    assert not listing("uplink")
    assert read_device("bridge").mtu == 1400
    assert default_gateways(read_device("bridge")) == ["198.18.7.254", "fd00:6864:7::fe"]
    assert not move_device("uplink", "bridge", write=True).changed

    move_device("bridge", "uplink", write=True)
    assert listing("uplink") == before
    assert not listing("bridge")


def test_bridge_follows_uplink_mtu(uplink):
    move_device("uplink", "bridge", write=True)
    ip("link", "set", "uplink", "mtu", "1300")
    assert move_device("uplink", "bridge", write=False).changed
    assert move_device("uplink", "bridge", write=True).changed
    assert read_device("bridge").mtu == 1300
    assert not move_device("uplink", "bridge", write=True).changed


def test_route_that_is_added_during_the_migration_moves_too(uplink, monkeypatch):
    """The kernel removes the routes of a device with its last address."""

    def add_route_and(index, address):
        ip("route", "add", "198.51.100.0/24", "via", "198.18.7.254", "dev", "uplink")
        monkeypatch.undo()
        add_address(index, address)

    monkeypatch.setattr(uplink_migration, "add_address", add_route_and)
    move_device("uplink", "bridge", write=True)
    assert "198.51.100.0/24 via 198.18.7.254" in {route.text for route in read_device("bridge").routes}
    assert not listing("uplink")


class Cut(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("calls", range(1, 13))
def test_migration_cut_off_at_any_step_loses_nothing_and_is_completed(uplink, monkeypatch, calls):
    before = listing("uplink")
    left = iter([True] * calls)

    def until_cut(function):
        def step(*arguments):
            if not next(left, False):
                raise Cut
            return function(*arguments)

        return step

    with monkeypatch.context() as patched:
        for name in ("add_address", "move_route", "remove_address"):
            patched.setattr(uplink_migration, name, until_cut(getattr(uplink_migration, name)))
        with contextlib.suppress(Cut):
            move_device("uplink", "bridge", write=True)
    held = {
        item.text for name in ("uplink", "bridge") for item in read_device(name).addresses + read_device(name).routes
    }
    assert {item for item in held if " " not in item} >= set(ADDRESSES)
    assert "0.0.0.0/0 via 198.18.7.254 metric 10" in held
    assert "::/0 via fd00:6864:7::fe metric 20" in held
    move_device("uplink", "bridge", write=True)
    assert listing("bridge") == before
    assert not listing("uplink")


def test_gateway_addresses_stay_on_the_bridge(uplink):
    move_device("uplink", "bridge", write=True)
    with HostKernel() as kernel_host:
        kernel_host.add_address("bridge", "169.254.0.2/17", deprecated=False, prefix_route=True)
    ip("route", "add", "10.96.0.0/16", "via", "169.254.0.4", "dev", "bridge", "proto", "85")
    assert not any("169.254" in item.text for item in read_device("bridge").addresses + read_device("bridge").routes)


def test_dhcp_lease_is_not_migrated(uplink):
    ip("address", "add", "198.18.9.1/24", "dev", "uplink", "valid_lft", "100", "preferred_lft", "100")
    with pytest.raises(NetlinkError, match=r"leased address 198\.18\.9\.1/24"):
        move_device("uplink", "bridge", write=True)
    assert "198.18.7.1/24" in listing("uplink")


def test_an_unknown_interface_is_named(uplink):
    with pytest.raises(NetlinkError, match="there is no interface eth9; this host has"):
        move_device("eth9", "bridge", write=False)


def test_interfaces_with_advertised_routes_are_found(uplink):
    assert advertised_interfaces() == []
    ip("-6", "route", "add", "default", "via", "fd00:6864:7::fc", "dev", "uplink", "proto", "ra", "metric", "9")
    ip("link", "set", "bridge", "up")
    ip("-6", "route", "add", "2001:db8:9::/48", "dev", "bridge", "proto", "ra")
    assert advertised_interfaces() == ["uplink"]
    with open("/proc/sys/net/ipv6/conf/uplink/accept_ra", "w") as setting:
        setting.write("0")
    assert advertised_interfaces() == []


def test_device_without_ipv6_is_named_with_its_sysctl(uplink):
    with open("/proc/sys/net/ipv6/conf/bridge/disable_ipv6", "w") as setting:
        setting.write("1")
    with HostKernel() as kernel_host:
        kernel_host.add_address("bridge", "198.18.9.1/24", deprecated=False, prefix_route=True)
        with pytest.raises(OSError, match=r"net\.ipv6\.conf\.bridge\.disable_ipv6"):
            kernel_host.add_address("bridge", "fd00:6864:9::1/64", deprecated=False, prefix_route=True)
