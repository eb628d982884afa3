# SPDX-License-Identifier: Apache-2.0
"""A host's own network on this machine's kernel, in a network namespace of the test's own."""

import os
import threading
from dataclasses import replace

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.errors import NetlinkError
from ansible_collections.heddle.ovn.plugins.module_utils.netlink import kernel
from ansible_collections.heddle.ovn.plugins.module_utils.netlink.handle import HostKernel
from ansible_collections.heddle.ovn.plugins.module_utils.netlink.reconcile import reconcile_host_network
from ansible_collections.heddle.ovn.plugins.module_utils.types.host_network import (
    HostAddress,
    HostLink,
    HostNetwork,
    HostRoute,
    Neighbour,
    Rule,
    Sysctl,
)
from tests.live.conftest import START_TIMEOUT, wait_for
from tests.live.netlink.conftest import MAC, NAME, OWNER, apply, ip, make_port, size, snapshot

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")

WITHOUT_VRF = HostNetwork(
    links=(HostLink("mp1", mac=MAC, mtu=1400, network="red"),),
    addresses=(
        HostAddress("mp1", "10.100.0.2/24", network="red"),
        HostAddress("mp1", "fd00:100::2/64", network="red"),
        HostAddress("mp1", "10.101.0.2/24", prefix_route=False),
        HostAddress("br-ex", "169.254.0.2/17"),
        HostAddress("br-ex", "fd69::2/112", deprecated=True),
    ),
    routes=(
        HostRoute("169.254.0.1/32", device="br-ex", source="192.0.2.7"),
        HostRoute("fd69::1/128", device="br-ex", source="2001:db8::7"),
        HostRoute("10.96.0.0/16", "169.254.0.4", "br-ex", "169.254.0.2", 1400),
        HostRoute("fd00:10:96::/112", "fd69::4", "br-ex", "fd69::2", 1400),
        HostRoute("10.128.0.0/14", "10.100.0.1", "mp1", metric=50),
        HostRoute("fd00:128::/48", "fd00:100::1", "mp1", metric=50),
        HostRoute("10.200.0.0/16", "198.51.100.1", "br-ex", on_link=True),
        HostRoute("10.201.0.0/16", kind="unreachable", metric=4278198272),
        HostRoute("fd00:201::/64", kind="unreachable", metric=4278198272),
        HostRoute("10.202.0.0/16", kind="blackhole"),
        HostRoute("fd00:202::/64", kind="prohibit"),
        HostRoute("0.0.0.0/0", "192.0.2.1", "br-ex"),
        HostRoute("::/0", "2001:db8::1", "br-ex"),
    ),
    rules=(
        Rule(4, "", fwmark=0x1003, network="red"),
        Rule(6, "", fwmark=0x1003, network="red"),
        Rule(4, "", to="169.254.0.13/32", network="red"),
        Rule(6, "", to="fd69::d/128", network="red"),
        Rule(4, "", to="10.0.0.0/8", fwmark=5, priority=30),
    ),
    neighbours=(
        Neighbour("br-ex", "169.254.0.1", "0a:58:a9:fe:00:01"),
        Neighbour("br-ex", "fd69::1", "0a:58:a9:fe:00:01"),
    ),
    sysctls=(
        Sysctl("net/ipv4/conf/mp1/rp_filter", "2"),
        Sysctl("net/ipv4/conf/mp1/forwarding", "1"),
        Sysctl("net/ipv6/conf/mp1/no_such_setting", "1", minimum=True),
    ),
)  # fmt: skip


def test_create_recognise_remove(host):
    """Removal leaves the links with their settings: those belong to the creator of the links."""
    apply(HostNetwork(links=WITHOUT_VRF.links, sysctls=WITHOUT_VRF.sysctls))
    before = snapshot()
    checked = apply(WITHOUT_VRF, write=False)
    assert snapshot() == before
    assert len(checked.changes) == size(WITHOUT_VRF)
    assert apply(WITHOUT_VRF).changes == checked.changes
    assert apply(WITHOUT_VRF).changes == ()
    assert len(apply(write=False).changes) == size(WITHOUT_VRF)
    assert {change.action for change in apply().changes} == {"delete"}
    assert snapshot() == before
    assert not apply().changed


def test_kernel_state_equals_desired_state(host):
    apply(WITHOUT_VRF)
    routes, routes6 = ip("route"), ip("-6", "route")
    assert "10.96.0.0/16 via 169.254.0.4 dev br-ex proto 85 src 169.254.0.2 mtu 1400" in routes
    assert "fd00:10:96::/112 via fd69::4 dev br-ex proto 85 src fd69::2 metric 1024 mtu 1400" in routes6
    assert "10.128.0.0/14 via 10.100.0.1 dev mp1 proto 85 metric 50" in routes
    assert "10.200.0.0/16 via 198.51.100.1 dev br-ex proto 85 onlink" in routes
    assert "unreachable 10.201.0.0/16 proto 85 metric 4278198272" in routes
    assert "10.101.0.0/24" not in routes
    assert "1800:\tfrom all fwmark 0x1003 lookup main proto 85" in ip("rule")
    assert "30:\tfrom all to 10.0.0.0/8 fwmark 0x5 lookup main proto 85" in ip("rule")
    assert "169.254.0.1 dev br-ex lladdr 0a:58:a9:fe:00:01 PERMANENT proto 85" in ip("-details", "neighbour")
    address = ip("address", "show", "dev", "br-ex")
    (line,) = (line for line in address.splitlines() if "fd69::2/112" in line)
    assert {"deprecated", "nodad"} <= set(line.split())
    assert "preferred_lft 0sec" in address
    link = ip("link", "show", "mp1")
    assert MAC in link
    assert "mtu 1400" in link


SOURCES = HostNetwork(
    rules=(
        Rule(4, "", source="10.100.0.3/32", table="4711", priority=5000),
        Rule(6, "", source="fd00:100::3/128", table="4711", priority=5000),
        Rule(4, "", source="169.254.0.3/32", source_port=30080, table="4711", priority=5000),
        Rule(6, "", to="2001:db8::b/128", table="main", priority=4999),
    )
)


def test_rules_by_source_for_tables_of_others(host):
    assert [change.action for change in apply(SOURCES).changes] == ["create"] * 4
    assert not apply(SOURCES).changed
    found = ip("rule")
    assert "5000:\tfrom 10.100.0.3 lookup 4711 proto 85" in found
    assert "5000:\tfrom 169.254.0.3 sport 30080 lookup 4711 proto 85" in found
    assert "5000:\tfrom fd00:100::3 lookup 4711 proto 85" in ip("-6", "rule")
    ip("rule", "del", "from", "10.100.0.3", "priority", "5000")
    ip("rule", "add", "from", "10.100.0.4", "priority", "5000", "lookup", "4711", "protocol", "85")
    ip("rule", "add", "from", "10.100.0.3", "dport", "80", "priority", "5000", "lookup", "4711", "protocol", "85")
    repaired = apply(SOURCES)
    assert sorted(change.action for change in repaired.changes) == ["create", "delete", "delete"]
    assert not apply(SOURCES).changed
    assert {change.action for change in apply().changes} == {"delete"}
    assert "5000" not in ip("rule") + ip("-6", "rule")


def test_rules_for_a_table_that_the_host_lacks_are_left_out_with_a_note(host):
    there, missing = replace(SOURCES.rules[0], table="4712"), replace(SOURCES.rules[1], table="no-such-table")
    outcome = apply(HostNetwork(rules=(there, missing)))
    assert [change.name for change in outcome.changes] == ["IPv4 5000 from 10.100.0.3/32 table 4712"]
    [note] = outcome.notes
    assert note.startswith("there is no routing table no-such-table on this host")


REMOVE = [
    ("address", "del", "10.100.0.2/24", "dev", "mp1"),
    ("address", "del", "fd69::2/112", "dev", "br-ex"),
    ("route", "del", "10.96.0.0/16"),
    ("-6", "route", "del", "fd00:201::/64"),
    ("rule", "del", "priority", "30"),
    ("neighbour", "del", "169.254.0.1", "dev", "br-ex"),
    ("link", "set", "mp1", "down"),
    ("link", "set", "mp1", "mtu", "1300"),
    ("link", "set", "mp1", "address", "0a:58:64:41:00:99"),
    ("route", "change", "10.96.0.0/16", "via", "192.0.2.9", "proto", "85"),
    ("neighbour", "change", "169.254.0.1", "lladdr", "0a:00:00:00:00:01", "dev", "br-ex", "protocol", "85"),
    ("rule", "add", "priority", "2000", "fwmark", "0x9", "lookup", "main", "protocol", "85"),
    ("rule", "add", "priority", "2000", "fwmark", "0x1003/0xffff", "iif", "lo", "lookup", "main", "protocol", "85"),
    ("route", "add", "10.99.0.0/16", "dev", "mp1", "proto", "85"),
    ("-6", "route", "add", "unreachable", "fd99::/64", "proto", "85", "table", "77"),
]


@pytest.mark.parametrize("damage", REMOVE, ids=" ".join)
def test_drift_is_repaired(host, damage):
    apply(WITHOUT_VRF)
    good = sorted(snapshot().split())
    ip(*damage)
    assert apply(WITHOUT_VRF).changed
    # The kernel adds the link-local address of a link that is up again, and its routes, some time later.
    wait_for(lambda: sorted(snapshot().split()) == good, "what was there before")
    assert not apply(WITHOUT_VRF).changed


def test_settings_are_written_only_when_they_differ(host):
    desired = HostNetwork(sysctls=WITHOUT_VRF.sysctls)
    assert [change.name for change in apply(desired).changes] == [
        "net/ipv4/conf/mp1/rp_filter", "net/ipv4/conf/mp1/forwarding",
    ]  # fmt: skip
    assert not apply(desired).changed
    with HostKernel() as inside:
        inside.write_sysctl("net/ipv4/conf/mp1/rp_filter", "1")
    (change,) = apply(desired).changes
    assert (change.before, change.after) == ({"value": "1"}, {"value": "2"})


def test_missing_setting_is_named_in_the_error(host):
    desired = HostNetwork(sysctls=(Sysctl("net/ipv4/conf/mp1/no_such_setting", "1"),))
    assert apply(desired, write=False).changed
    with pytest.raises(NetlinkError, match="no_such_setting"):
        apply(desired)


def test_a_larger_number_than_a_minimum_stays(host):
    name = "net/ipv4/neigh/mp1/base_reachable_time_ms"
    desired = HostNetwork(sysctls=(Sysctl(name, "40000", minimum=True),))
    assert [change.after for change in apply(desired).changes] == [{"value": "40000"}]
    with HostKernel() as inside:
        inside.write_sysctl(name, "50000")
        assert not apply(desired).changed
        assert inside.read_sysctl(name) == "50000"


def test_foreign_objects_stay_and_are_reported(host):
    for command in (
        "address add 10.9.0.1/24 dev mp1", "link set mp1 up", "route add 10.98.0.0/16 dev mp1",
        "rule add priority 2000 fwmark 0x9 lookup main", "neighbour add 10.9.0.5 lladdr 0a:00:00:00:00:05 dev br-ex",
    ):  # fmt: skip
        ip(*command.split())
    outcome = apply(WITHOUT_VRF)
    assert [(item.kind, item.name) for item in outcome.foreign] == [("rule", "IPv4 2000 to any table 254")]
    apply()
    seen = snapshot()
    for text in ("10.9.0.1/24", "10.98.0.0/16", "fwmark 0x9", "10.9.0.5 dev br-ex"):
        assert text in seen


@pytest.mark.parametrize(
    ("command", "desired", "message"),
    [
        (
            "route add 10.96.0.0/16 via 192.0.2.9", HostNetwork(routes=(HostRoute("10.96.0.0/16", device="br-ex"),)),
            "route 10.96.0.0/16: there is one .*not Heddle's",
        ),
        (
            "neighbour add 169.254.0.1 lladdr 0a:00:00:00:00:05 dev br-ex",
            HostNetwork(neighbours=(Neighbour("br-ex", "169.254.0.1", MAC),)), "neighbour 169.254.0.1 of br-ex",
        ),
    ],
)  # fmt: skip
def test_conflicting_foreign_object_is_an_error(host, command, desired, message):
    ip(*command.split())
    before = snapshot()
    with pytest.raises(NetlinkError, match=message):
        apply(desired)
    assert snapshot() == before


def test_conflict_of_one_network_does_not_affect_others(host):
    """Of the refused network nothing is written, and nothing that it had goes."""
    red = HostRoute("10.1.0.0/16", "192.0.2.8", "br-ex", network="red")
    apply(HostNetwork(routes=(replace(red, to="10.9.0.0/16"),)))
    ip(*["route", "add", "10.1.0.0/16", "via", "192.0.2.9"])
    blue = HostRoute("10.2.0.0/16", "192.0.2.8", "br-ex", network="blue")
    desired = HostNetwork(routes=(red, replace(red, to="10.9.0.0/16"), replace(red, to="10.8.0.0/16"), blue))
    outcome = apply(desired)
    assert [(change.name, change.network) for change in outcome.changes] == [("10.2.0.0/16", "blue")]
    ((network, reason),) = outcome.refused
    assert network == "red"
    assert "route 10.1.0.0/16" in reason
    assert "10.9.0.0/16" in snapshot()
    with pytest.raises(NetlinkError, match="not Heddle's"):
        apply(desired, write=False)


def test_kernel_error_of_one_network_does_not_affect_others(host):
    # No route leads to the next hop, which only the kernel finds.
    red = HostRoute("10.1.0.0/16", "203.0.113.9", "br-ex", network="red")
    blue = HostRoute("10.2.0.0/16", "192.0.2.8", "br-ex", network="blue")
    outcome = apply(HostNetwork(routes=(red, blue)))
    assert [change.network for change in outcome.changes] == ["blue"]
    assert [network for network, _reason in outcome.refused] == ["red"]


def test_missing_link_of_one_network_does_not_affect_others(host):
    desired = HostNetwork(links=(HostLink("mp9", mtu=1300, network="red"), HostLink("mp1", mtu=1300, network="blue")))
    outcome = apply(desired, timeout=0.05)
    assert [network for network, _reason in outcome.refused] == ["red"]
    assert "mtu 1300" in ip("link", "show", "mp1")


def test_existing_unmarked_object_is_not_adopted(host):
    ip("route", "add", "10.96.0.0/16", "via", "192.0.2.9")
    desired = HostNetwork(
        addresses=(HostAddress("br-ex", "192.0.2.7/24"),), routes=(HostRoute("10.96.0.0/16", "192.0.2.9", "br-ex"),)
    )
    before = snapshot()
    assert not apply(desired).changed
    assert not apply().changed
    assert snapshot() == before


def test_routes_follow_a_changed_address(host):
    apply(WITHOUT_VRF)
    moved = replace(
        WITHOUT_VRF,
        addresses=tuple(
            replace(item, address=item.address.replace("10.100.0.2", "10.100.0.9")) for item in WITHOUT_VRF.addresses
        ),
    )
    apply(moved)
    assert "10.128.0.0/14 via 10.100.0.1 dev mp1" in ip("route")
    assert "inet 10.100.0.2/" not in snapshot()
    assert not apply(moved).changed


@pytest.mark.parametrize("written", range(0, 25, 3))
def test_a_run_that_was_cut_off_is_completed_by_the_next(host, written):
    class CutOff(HostKernel):
        left = written

        def _count(self):
            if not self.left:
                raise OSError("cut off")
            self.left -= 1

        def add_address(self, *address, **options):
            self._count()
            super().add_address(*address, **options)

        def _send(self, message, kind, flags):
            self._count()
            super()._send(message, kind, flags)

    with CutOff() as kernel_side, pytest.raises(NetlinkError, match="cut off"):
        reconcile_host_network(WITHOUT_VRF, owner=OWNER, write=True, kernel=kernel_side)
    assert len(apply(WITHOUT_VRF).changes) == size(WITHOUT_VRF) - written
    assert not apply(WITHOUT_VRF).changed


def test_removal_tolerates_objects_that_vanish_with_their_link(host):
    """Open vSwitch removes management ports some time after they left its database."""

    class Vanishing(HostKernel):
        def read(self):
            state = super().read()
            ip("link", "delete", "mp1")
            return state

    apply(replace(WITHOUT_VRF, neighbours=(*WITHOUT_VRF.neighbours, Neighbour("mp1", "10.100.0.9", MAC))))
    with Vanishing() as kernel_side:
        reconcile_host_network(HostNetwork(), owner=OWNER, write=True, kernel=kernel_side)
    assert not apply().changed
    assert "169.254" not in snapshot()


def test_conflicting_routes_are_refused(host):
    routes = (HostRoute("10.0.0.0/8", "192.0.2.1", "br-ex"), HostRoute("10.0.0.0/8", "192.0.2.2", "br-ex"))
    with pytest.raises(NetlinkError, match="duplicate route"):
        apply(HostNetwork(routes=routes))


def test_late_link_is_awaited_and_missing_link_is_named(host):
    desired = HostNetwork(links=(HostLink("mp2", mtu=1300),))
    assert [change.name for change in apply(desired, write=False).changes] == ["mp2"]
    with pytest.raises(NetlinkError, match=r"no link mp2 after 0\.05 s"):
        apply(desired, timeout=0.05)
    asked = threading.Event()

    class Slow(HostKernel):
        def has_link(self, name):
            asked.set()
            return super().has_link(name)

    def make():
        with kernel.in_netns(NAME):
            asked.wait(START_TIMEOUT)
            make_port("mp2")

    maker = threading.Thread(target=make)
    maker.start()
    with Slow() as slow:
        reconcile_host_network(desired, owner=OWNER, write=True, timeout=START_TIMEOUT, kernel=slow)
    maker.join()
    assert "mtu 1300" in ip("link", "show", "mp2")


def test_a_network_without_its_link_is_refused_with_the_reason_and_the_others_are_set(host):
    desired = HostNetwork(
        links=(HostLink("mp1", network="red"), HostLink("mp2", network="blue")),
        addresses=(HostAddress("mp1", "10.1.0.2/24", network="red"), HostAddress("mp2", "10.2.0.2/24", network="blue")),
    )
    # Without waiting: the default is minutes.
    outcome = reconcile_host_network(desired, owner=OWNER, write=True, absent={"mp2": "type unknown"})
    assert outcome.refused == (("blue", "there is no link mp2: type unknown"),)
    assert "10.1.0.2/24" in ip("address")
    assert not apply(HostNetwork(links=desired.links[:1], addresses=desired.addresses[:1])).changed
