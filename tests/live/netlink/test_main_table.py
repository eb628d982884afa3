# SPDX-License-Identifier: Apache-2.0
"""Copies of the host's own routes in VRFs, and what is reported when the host's network changes.

On a kernel without VRFs a link of another kind stands for each; routing tables are the same.
"""

from __future__ import annotations

import os
import select
from dataclasses import replace

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.netlink.handle import HostKernel, vrf_supported
from ansible_collections.heddle.ovn.plugins.module_utils.netlink.monitor import host_network_monitor
from ansible_collections.heddle.ovn.plugins.module_utils.netlink.reconcile import reconcile_host_network
from ansible_collections.heddle.ovn.plugins.module_utils.types.host_network import (
    HostAddress,
    HostLink,
    HostNetwork,
    HostRoute,
    Vrf,
)
from tests.live.netlink.conftest import MAC, OWNER, ip, make_port

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")

UNREACHABLE = 4278198272


def network(name, link, subnet, subnet6=""):
    """What a network adds to a host: a VRF, and what the host's interface in it has."""
    vrf, gateway = f"{link}-udn-vrf", subnet.replace(".0/24", ".1")
    routes = [
        HostRoute("10.96.0.0/16", "169.254.0.4", "br-ex", mtu=1400, vrf=vrf, network=name),
        HostRoute("192.0.2.0/24", device="br-ex", vrf=vrf, network=name),
        HostRoute("0.0.0.0/0", "192.0.2.1", "br-ex", vrf=vrf, network=name),
        HostRoute("0.0.0.0/0", kind="unreachable", metric=UNREACHABLE, vrf=vrf, network=name),
        HostRoute("10.128.0.0/14", gateway, link, vrf=vrf, network=name),
    ]
    addresses = [HostAddress(link, subnet.replace(".0/24", ".2/24"), network=name)]
    if subnet6:
        routes.append(HostRoute("::/0", kind="unreachable", metric=UNREACHABLE, vrf=vrf, network=name))
        addresses.append(HostAddress(link, subnet6.replace("::/64", "::2/64"), network=name))
    return HostNetwork(
        links=(HostLink(link, mac=MAC, mtu=1400, vrf=vrf, network=name),),
        vrfs=(Vrf(vrf, link, name, main_routes=True),),
        addresses=tuple(addresses),
        routes=tuple(routes),
    )


RED = network("red", "mp1", "10.100.0.0/24", "fd00:100::/64")
SHARED = HostNetwork(
    links=(HostLink("mp0", network="default"),),
    addresses=(HostAddress("br-ex", "169.254.0.2/17"), HostAddress("mp0", "10.244.0.2/24", network="default")),
    routes=(
        HostRoute("10.96.0.0/16", "169.254.0.4", "br-ex", mtu=1400),
        HostRoute("10.244.0.0/16", "10.244.0.1", "mp0", network="default"),
    ),
)


def on_host(own):
    """What a host with one network besides the default one has."""
    return replace(
        own, **{name: getattr(SHARED, name) + getattr(own, name) for name in ("links", "addresses", "routes")}
    )


DESIRED = on_host(RED)


class WithoutVrf(HostKernel):
    """A link of another kind stands for a VRF; the links in it stay where they are."""

    tables: dict[str, int] = {}
    masters: dict[str, str] = {}

    def create_vrf(self, name, table, mark):
        make_port(name)
        self.tables[name] = table
        self.change_link(name, ifalias=mark, state="up")

    def set_master(self, name, master):
        self.masters[name] = master

    def read(self):
        state = super().read()
        for name, link in list(state.links.items()):
            if name in self.tables:
                state.links[name] = replace(link, kind="vrf", table=self.tables[name])
            elif self.masters.get(name):
                state.links[name] = replace(link, master=self.masters[name])
        return state


@pytest.fixture
def apply(host, monkeypatch):
    """A function that applies a desired state; the host has another interface, eth3, besides the bridge."""
    monkeypatch.setattr(WithoutVrf, "tables", {})
    monkeypatch.setattr(WithoutVrf, "masters", {})
    kind = HostKernel if vrf_supported() else WithoutVrf
    for name in ("mp0", "eth3", "mp2"):
        make_port(name)
    ip("link", "set", "eth3", "up")
    ip("address", "add", "203.0.113.7/24", "dev", "eth3")
    ip("address", "add", "2001:db8:3::7/64", "dev", "eth3", "nodad")

    def run(desired=DESIRED, *, write=True, kind=kind):
        with kind() as kernel:
            return reconcile_host_network(desired, owner=OWNER, write=write, timeout=60, kernel=kernel)

    return run


def table_of(link="mp1", family="-4"):
    """Return the routes of a VRF by prefix and metric, as ip(8) shows them, without whether the cable is plugged in."""
    with HostKernel() as kernel:
        number = kernel.read().links[link].index + 1000
    text = ip(family, "route", "show", "table", str(number)).replace(" linkdown", "")
    return [" ".join(line.split()) for line in text.replace("\n\t", " ").splitlines()]


def route(prefix, **more):
    found = [line for line in table_of(**more) if line.split()[0] == prefix or line.startswith(f"unicast {prefix}")]
    assert len(found) < 2, found
    return found[0] if found else None


ROUTES = {
    "10.1.0.0/16 via 203.0.113.1 dev eth3 metric 5 mtu 1300 advmss 1200":
        "10.1.0.0/16 via 203.0.113.1 dev eth3 proto 85 metric 5 mtu 1300 advmss 1200",
    "10.2.0.0/16 via 192.0.2.9 dev br-ex src 192.0.2.7": "10.2.0.0/16 via 192.0.2.9 dev br-ex proto 85 src 192.0.2.7",
    "10.3.0.0/16 nexthop via 192.0.2.8 dev br-ex weight 2 nexthop via 203.0.113.1 dev eth3 weight 1":
        "10.3.0.0/16 proto 85 nexthop via 192.0.2.8 dev br-ex weight 2 nexthop via 203.0.113.1 dev eth3 weight 1",
    "10.4.0.0/16 via 198.51.100.1 dev eth3 onlink": "10.4.0.0/16 via 198.51.100.1 dev eth3 proto 85 onlink",
    "10.5.0.0/16 dev eth3 scope link": "10.5.0.0/16 dev eth3 proto 85 scope link",
    "10.6.0.0/16 via inet6 2001:db8:3::1 dev eth3": "10.6.0.0/16 via inet6 2001:db8:3::1 dev eth3 proto 85",
    "fd06::/48 via 2001:db8:3::1 dev eth3 metric 7": "fd06::/48 via 2001:db8:3::1 dev eth3 proto 85 metric 7",
}  # fmt: skip


@pytest.mark.parametrize("words", ROUTES)
def test_a_route_of_the_host_is_copied_followed_and_removed(apply, words):
    prefix, family = words.split()[0], "-6" if words.startswith("fd") else "-4"
    apply()
    ip(family, "route", "add", *words.split())
    checked = apply(write=False)
    assert [(change.action, change.kind, change.network) for change in checked.changes] == [("create", "route", "red")]
    assert route(prefix, family=family) is None
    assert apply().changes == checked.changes
    assert route(prefix, family=family).removesuffix(" pref medium") == ROUTES[words]
    assert not apply().changed
    ip(family, "route", "replace", prefix, "quickack", "1", *words.split()[1:])
    assert [change.action for change in apply().changes] == ["update"]
    assert "quickack 1" in route(prefix, family=family)
    assert not apply().changed
    ip(family, "route", "del", prefix)
    assert [change.action for change in apply(write=False).changes] == ["delete"]
    apply()
    assert route(prefix, family=family) is None
    assert not apply().changed


def test_the_subnets_of_the_host_s_interfaces_are_part_of_it(apply):
    checked = apply(write=False)
    assert apply().changes == checked.changes
    assert not apply().changed
    assert route("203.0.113.0/24") == "203.0.113.0/24 dev eth3 proto 85 scope link src 203.0.113.7"
    assert route("2001:db8:3::/64", family="-6").startswith("2001:db8:3::/64 dev eth3 proto 85 metric 256")


def test_all_of_it_goes_with_the_network(apply):
    ip("route", "add", "10.1.0.0/16", "via", "203.0.113.1")
    apply()
    number = HostKernel().read().links["mp1"].index + 1000
    apply(HostNetwork())
    assert f"table {number}" not in ip("route", "show", "table", "all").replace("local ", "")


@pytest.mark.parametrize(
    "words",
    [
        "route add default via 203.0.113.1 metric 50",  # the provider network decides which one it is
        "route add 10.96.0.0/16 via 203.0.113.1 metric 50",  # services
        "route add 192.0.2.0/24 dev eth3 metric 50",  # the provider network's subnet
        "route add 10.100.0.0/24 via 203.0.113.1 metric 50",  # connected in the VRF
        "route add 10.100.0.128/25 via 203.0.113.1",  # would take half of the network's addresses away from it
        "route add 10.129.0.0/16 via 203.0.113.1",  # the same, of another node's host subnets
        "route add 10.7.0.0/16 dev mp0",  # the host's own interface in the default network
        "route add unreachable 10.7.0.0/16",
        "-6 route add fe80:5::/64 dev eth3",
    ],
)
def test_what_belongs_to_the_network_or_to_heddle_is_not_copied(apply, words):
    apply()
    before = table_of(), table_of(family="-6")
    ip(*words.split())
    assert not apply().changed
    assert (table_of(), table_of(family="-6")) == before
    assert not [line for line in before[0] if "169.254.0.0/17" in line or "10.244." in line]


def test_a_network_without_ipv6_gets_no_routes_of_it(apply):
    apply(on_host(network("plain", "mp2", "10.103.0.0/24")))
    assert route("203.0.113.0/24", link="mp2")
    assert "proto 85" not in ip("-6", "route", "show", "table", "all")


def test_a_route_that_others_put_into_the_vrf_is_left_to_them(apply):
    apply()
    number = str(HostKernel().read().links["mp1"].index + 1000)
    ip("route", "add", "10.1.0.0/16", "via", "192.0.2.9", "table", number)
    ip("route", "add", "10.1.0.0/16", "via", "203.0.113.1")
    assert not apply().changed
    assert route("10.1.0.0/16") == "10.1.0.0/16 via 192.0.2.9 dev br-ex"


def test_a_route_that_cannot_be_copied_is_a_note_and_refuses_no_network(apply):
    class Refusing(HostKernel if vrf_supported() else WithoutVrf):
        def copy_route(self, table, found):
            if found.get_attr("RTA_DST") == "10.1.0.0":
                raise OSError("not this one")
            super().copy_route(table, found)

    ip("route", "add", "10.1.0.0/16", "via", "203.0.113.1")
    outcome = apply(kind=Refusing)
    assert not outcome.refused
    (note,) = outcome.notes
    assert "10.1.0.0/16" in note
    assert "not this one" in note
    assert route("203.0.113.0/24")


def test_a_vrf_that_should_have_no_copies_has_none(apply):
    apply(replace(DESIRED, vrfs=tuple(replace(vrf, main_routes=False) for vrf in RED.vrfs)))
    assert route("203.0.113.0/24") is None


@pytest.fixture
def watched(apply):
    apply()
    found = host_network_monitor()
    yield found
    found.close()


def reported(watched):
    while select.select([watched], [], [], 10)[0]:
        if watched.changed():
            return True
    return False


@pytest.mark.parametrize(
    ("before", "words", "expected"),
    [
        ([], "route add 10.1.0.0/16 via 203.0.113.1", True),
        ([], "-6 route add fd06::/48 via 2001:db8:3::1", True),
        (["route add 10.1.0.0/16 via 203.0.113.1"], "route del 10.1.0.0/16", True),
        (["-6 route add fd06::/48 via 2001:db8:3::1"], "-6 route del fd06::/48", True),
        (["route add 10.1.0.0/16 via 192.0.2.9"], "route replace 10.1.0.0/16 via 203.0.113.1", True),
        # The kernel does not report the routes that go with their source.
        (["address add 203.0.113.8/32 dev eth3", "route add 10.1.0.0/16 via 203.0.113.1 src 203.0.113.8"],
         "address del 203.0.113.8/32 dev eth3", True),
        ([], "address add 203.0.113.8/24 dev eth3", True),
        ([], "address add 2001:db8:3::8/64 dev eth3 nodad", True),
        (["address add 2001:db8:3::8/64 dev eth3 nodad"], "address del 2001:db8:3::8/64 dev eth3", True),
        ([], "address add 203.0.113.8/24 dev eth3 valid_lft 600 preferred_lft 600", False),
        ([], "route add default via 203.0.113.1 metric 9", False),
        ([], "route add unreachable 10.1.0.0/16", False),
        ([], "route add 10.1.0.0/16 via 203.0.113.1 proto 85", False),
        ([], "route add 10.1.0.0/16 via 203.0.113.1 table 77", False),
        ([], "-6 route add fe80:5::/64 dev eth3", False),
        ([], "link add other type veth peer name other-far", False),
    ],
)  # fmt: skip
def test_changes_of_addresses_and_of_the_main_table_are_reported(watched, before, words, expected):
    for line in before:
        ip(*line.split())
    watched.changed()
    ip(*words.split())
    assert reported(watched) if expected else not watched.changed()


def test_what_heddle_writes_is_not_reported(apply, watched):
    ip("route", "add", "10.1.0.0/16", "via", "203.0.113.1")
    assert reported(watched)
    more = HostAddress("br-ex", "169.254.0.9/17")
    assert len(apply(replace(DESIRED, addresses=(*DESIRED.addresses, more))).changes) == 2
    assert not watched.changed()
