# SPDX-License-Identifier: Apache-2.0
"""What a run lists when a host gives up addresses is what the kernel then lacks, and all of it is set again."""

import os
from collections import Counter
from dataclasses import replace

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.netlink.handle import HostKernel
from ansible_collections.heddle.ovn.plugins.module_utils.netlink.reconcile import reconcile_host_network
from ansible_collections.heddle.ovn.plugins.module_utils.types.host_network import (
    HostAddress,
    HostLink,
    HostNetwork,
    HostRoute,
    Neighbour,
)
from tests.live.conftest import wait_for
from tests.live.netlink.conftest import MAC, OWNER, apply, ip, snapshot

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")

DESIRED = HostNetwork(
    links=(HostLink("mp1", mac=MAC),),
    addresses=(
        HostAddress("br-ex", "169.254.0.2/17"),
        HostAddress("br-ex", "198.51.100.2/24"),
        HostAddress("br-ex", "198.51.100.3/24"),
        HostAddress("br-ex", "203.0.113.5/32"),
        HostAddress("br-ex", "fd69::2/112", deprecated=True),
        HostAddress("br-ex", "fd69:1::2/64"),
        HostAddress("br-ex", "fd69:1::3/64"),
        HostAddress("mp1", "10.100.0.2/24"),
        HostAddress("mp1", "10.100.0.3/24"),
        HostAddress("mp1", "10.101.0.2/24", prefix_route=False),
        HostAddress("mp1", "fd00:100::2/64"),
    ),
    routes=(
        HostRoute("10.96.0.0/16", "169.254.0.4", "br-ex", "169.254.0.2", 1400),
        HostRoute("10.97.0.0/16", "198.51.100.9", "br-ex"),
        HostRoute("10.98.0.0/16", "198.51.100.9", "br-ex", "198.51.100.3"),
        HostRoute("10.99.0.0/16", "192.0.2.1", "br-ex", "203.0.113.5"),
        HostRoute("198.51.100.0/24", device="br-ex", metric=50),
        HostRoute("10.128.0.0/14", "10.100.0.1", "mp1"),
        HostRoute("10.102.0.0/24", device="mp1"),
        HostRoute("10.103.0.0/24", device="mp1", source="198.51.100.2"),
        HostRoute("10.201.0.0/16", kind="unreachable"),
        HostRoute("fd69:1::/64", device="br-ex", metric=50),
        HostRoute("fd00:96::/64", "fd69::4", "br-ex", "fd69::2"),
        HostRoute("fd00:97::/64", "fd69:1::4", "br-ex"),
        HostRoute("fd00:98::/64", device="mp1", source="fd69:1::3"),
        HostRoute("fd00:100::/64", device="mp1"),
        HostRoute("fd00:128::/48", "fd00:100::1", "mp1"),
    ),
    neighbours=(
        Neighbour("br-ex", "169.254.0.1", "0a:58:a9:fe:00:01"),
        Neighbour("br-ex", "fd69::1", "0a:58:a9:fe:00:01"),
        Neighbour("mp1", "10.100.0.1", "0a:58:64:41:00:01"),
        Neighbour("mp1", "fd00:100::1", "0a:58:64:41:00:01"),
    ),
)  # fmt: skip


class OnlyRemoves(HostKernel):
    """Performs the removals of a run and no more; what is then missing was removed, by it or by the kernel."""

    def add_address(self, *_arguments, **_options):
        pass

    set_route = set_neighbour = add_address


def steady():
    """What there is, once two readings agree: the kernel notices only after a while that cables are plugged in."""
    readings = [snapshot()]

    def agree():
        readings.append(snapshot())
        return readings[-1] == readings[-2]

    wait_for(agree, "two equal readings")
    return readings[-1]


def listed(outcome):
    return Counter((change.kind, change.name) for change in outcome.changes)


def without(*addresses):
    """The desired state without some addresses and the routes that need them as their source."""
    gone = {text.partition("/")[0] for text in addresses}
    return replace(
        DESIRED,
        addresses=tuple(item for item in DESIRED.addresses if item.address not in addresses),
        routes=tuple(item for item in DESIRED.routes if item.source not in gone),
    )


def with_changed(text, **changes):
    """The desired state with other properties of an address, for which it is removed and added."""
    return replace(
        DESIRED,
        addresses=tuple(replace(item, **changes) if item.address == text else item for item in DESIRED.addresses),
    )


def with_others_of_mp1(*addresses):
    """The desired state with other IPv4 addresses of mp1."""
    kept = (item for item in DESIRED.addresses if item.device != "mp1" or ":" in item.address)
    return replace(DESIRED, addresses=(*kept, *(HostAddress("mp1", text) for text in addresses)))


WANTED = {
    "another subnet": without("169.254.0.2/17"),
    "a primary address": without("198.51.100.2/24"),
    "a secondary address": without("198.51.100.3/24"),
    "a whole subnet": without("198.51.100.2/24", "198.51.100.3/24"),
    "an address of 32 bits": without("203.0.113.5/32"),
    "the primary address of mp1": without("10.100.0.2/24"),
    "all but one of mp1": without("10.100.0.2/24", "10.100.0.3/24"),
    "all of mp1, for another one": with_others_of_mp1("10.100.0.9/24"),
    "IPv6": without("fd69::2/112"),
    "one of two IPv6 addresses": without("fd69:1::2/64"),
    "both IPv6 addresses": without("fd69:1::2/64", "fd69:1::3/64"),
    "the only IPv6 address of mp1": without("fd00:100::2/64"),
    "changed": with_changed("169.254.0.2/17", deprecated=True),
    "changed primary": with_changed("198.51.100.2/24", deprecated=True),
    "changed secondary": with_changed("198.51.100.3/24", deprecated=True),
    "changed, 32 bits": with_changed("203.0.113.5/32", prefix_route=False),
    "changed IPv6": with_changed("fd69::2/112", deprecated=False),
    "changed IPv6, one of two": with_changed("fd69:1::3/64", deprecated=True),
    "MAC address": replace(DESIRED, links=(HostLink("mp1", mac="0a:58:64:41:00:09"),)),
}


@pytest.mark.parametrize("promotes", ["0", "1"])
@pytest.mark.parametrize("wanted", WANTED.values(), ids=WANTED)
def test_what_goes_is_listed_and_set_again(host, wanted, promotes):
    with HostKernel() as inside:
        for name in ("br-ex", "mp1"):
            inside.write_sysctl(f"net/ipv4/conf/{name}/promote_secondaries", promotes)
    apply(DESIRED)
    assert not apply(DESIRED).changed
    before = steady()
    checked = apply(wanted, write=False)
    assert steady() == before

    assert apply(wanted).changes == checked.changes
    assert apply(wanted).changes == ()
    apply()
    apply(DESIRED)
    assert sorted(steady().split()) == sorted(before.split())

    with OnlyRemoves() as kernel_side:
        reconcile_host_network(wanted, owner=OWNER, write=True, kernel=kernel_side)
    removed = Counter((change.kind, change.name) for change in checked.changes if change.action == "delete")
    updated = Counter((change.kind, change.name) for change in checked.changes if change.kind == "link")
    assert listed(apply(wanted, write=False)) == listed(checked) - removed - updated


def test_an_address_is_given_up_and_nothing_else_is_listed(host):
    apply(DESIRED)
    outcome = apply(without("203.0.113.5/32"), write=False)
    assert [(change.action, change.name) for change in outcome.changes] == [
        ("delete", "br-ex 203.0.113.5/32"), ("delete", "10.99.0.0/16"),
    ]  # fmt: skip


@pytest.mark.parametrize("promotes", ["0", "1"])
def test_foreign_objects_that_are_wanted_do_not_stay_away(host, promotes):
    """They go with the last address of Heddle's; those that stay remain foreign."""
    with HostKernel() as inside:
        inside.write_sysctl("net/ipv4/conf/mp1/promote_secondaries", promotes)
    address, route = HostAddress("mp1", "10.100.0.3/24"), HostRoute("10.128.0.0/14", "10.100.0.1", "mp1")
    apply(HostNetwork(addresses=(HostAddress("mp1", "10.100.0.2/24"),), links=(HostLink("mp1"),)))
    ip("address", "add", address.address, "dev", "mp1")
    ip("route", "add", route.to, "via", route.via, "dev", "mp1")
    wanted = HostNetwork(addresses=(address,), routes=(route,), links=(HostLink("mp1"),))
    outcome = apply(wanted)
    assert len(outcome.changes) == (1 if promotes == "1" else 3)
    assert not apply(wanted).changed
    assert "10.128.0.0/14 via 10.100.0.1" in ip("route")
