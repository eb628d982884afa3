# SPDX-License-Identifier: Apache-2.0
"""A network namespace that stands for a host, and what the tests do there."""

import json
import os
import subprocess

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.netlink import kernel
from ansible_collections.heddle.ovn.plugins.module_utils.netlink.handle import HostKernel
from ansible_collections.heddle.ovn.plugins.module_utils.netlink.reconcile import reconcile_host_network
from ansible_collections.heddle.ovn.plugins.module_utils.types.host_network import HostNetwork
from tests.live.conftest import wait_for

NAME = f"h{os.getpid()}-host"
OWNER = "test:gateway"
MAC = "0a:58:64:41:00:02"


def ip(*arguments):
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def make_port(name):
    """A link as Open vSwitch makes one; its other end stands for the bridge."""
    ip("link", "add", name, "type", "veth", "peer", "name", f"{name}-far")
    ip("link", "set", f"{name}-far", "up")


@pytest.fixture
def host():
    kernel.create_namespace(NAME, "")
    try:
        with kernel.in_netns(NAME):
            with HostKernel() as inside:  # Link-local addresses come and change at times of their own.
                inside.write_sysctl("net/ipv6/conf/default/addr_gen_mode", "1")
            make_port("mp1")
            make_port("br-ex")
            ip("link", "set", "br-ex", "up")
            ip("address", "add", "192.0.2.7/24", "dev", "br-ex")
            ip("address", "add", "2001:db8::7/64", "dev", "br-ex", "nodad")
            yield
    finally:
        kernel.remove_namespace(NAME)


def apply(desired=None, *, write=True, timeout=60.0):
    return reconcile_host_network(desired or HostNetwork(), owner=OWNER, write=write, timeout=timeout)


def size(desired):
    counted = ("vrfs", "addresses", "routes", "rules", "neighbours")
    return sum(len(getattr(desired, name)) for name in counted)


def is_pending(line):
    """Whether a link has a carrier and is not in operation yet (RFC 2863): the kernel does that some time later."""
    return "LOWER_UP" in line and " state UP " not in line and " state UNKNOWN " not in line


def without_local_route():
    """The IPv6 addresses of links that are up which the kernel does not take as its own yet."""
    links = json.loads(ip("-json", "-6", "address", "show", "up"))
    found = {(one["local"], link["ifname"]) for link in links if link for one in link["addr_info"]}
    local = json.loads(ip("-json", "-6", "route", "show", "table", "local", "type", "local"))
    return found - {(one["dst"], one["dev"]) for one in local}


def snapshot():
    """What there is, without what changes by itself: whether the kernel has noticed that a cable is plugged in.

    Until it has, a link has no IPv6 routes. Nor has an address a local one at once, whether or not the kernel looks for
    duplicates of it.
    """
    wait_for(
        lambda: not [line for line in ip("-oneline", "link").splitlines() if is_pending(line)], "links in operation"
    )
    wait_for(lambda: "tentative" not in ip("-6", "address"), "the end of the detection of duplicate addresses")
    wait_for(lambda: not without_local_route(), "the local routes of IPv6 addresses")
    parts = [
        ip("-oneline", "address"), ip("route", "show", "table", "all"), ip("-6", "route", "show", "table", "all"),
        ip("rule"), ip("-6", "rule"), ip("neighbour", "show", "nud", "permanent"),
    ]  # fmt: skip
    with HostKernel() as inside:
        links = {name: (link.mac, link.mtu, link.up, link.master) for name, link in inside.read().links.items()}
    return "".join(parts).replace(" linkdown", "") + str(links)
