# SPDX-License-Identifier: Apache-2.0
"""Rules of networks with packets: each network has a table of a link instead of a VRF, which not every kernel has."""

from __future__ import annotations

import os

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.errors import NetlinkError
from ansible_collections.heddle.ovn.plugins.module_utils.netlink.handle import HostKernel
from ansible_collections.heddle.ovn.plugins.module_utils.netlink.reconcile import reconcile_host_network
from ansible_collections.heddle.ovn.plugins.module_utils.render.host.network_rules import network_rules
from ansible_collections.heddle.ovn.plugins.module_utils.types.host_network import (
    HostNetwork,
    HostRoute,
    Rule,
    link_table,
)
from tests.live.netlink.conftest import OWNER, apply, ip, snapshot
from tests.live.netlink.wire import OUT, Wire, router

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")

# First and last ids of blocks of rules.
NUMBERS = (1, 31, 32, 40, 4095)
LINKS = {number: f"mp{number}" for number in NUMBERS}
SUBNETS = ["169.254.0.0/17", "fd69::/112"]
ELSEWHERE = ("198.51.100.7", "2001:db8:7::7")
OTHER_MARKS = (0, 1008, 0x1002, 0x1021, 0x2001, 0x2A001001)


def masquerade(number: int) -> tuple[str, str]:
    return f"169.254.{number // 250}.{number % 250 + 1}", f"fd69::{number:x}"


def marks(**options) -> list[Rule]:
    return [
        Rule(version, link_table(link), fwmark=4096 + number, network=link, **options)
        for number, link in LINKS.items()
        for version in (4, 6)
    ]


def host_network(rules, *, in_main=True) -> HostNetwork:
    """Each network's table has a default route by its link, and routes to its masquerade addresses."""
    routes = [
        HostRoute(to, device=link, vrf=link_table(link), network=link)
        for link in LINKS.values()
        for to in ("0.0.0.0/0", "::/0")
    ]
    routes += [
        HostRoute(f"{address}/{128 if ':' in address else 32}", device=link, vrf=table, network=link)
        for number, link in LINKS.items()
        for address in masquerade(number)
        for table in (link_table(link), *([""] if in_main else []))
    ]
    return HostNetwork(routes=tuple(routes), rules=tuple(rules), link_tables=tuple(LINKS.values()))


NOW = host_network(network_rules(marks(), SUBNETS))
# As an older Heddle has them, and ovn-kubernetes.
FORMER = host_network(
    [
        *marks(priority=2000),
        *(
            Rule(6 if ":" in address else 4, link_table(link), to=f"{address}/{128 if ':' in address else 32}",
                 priority=2000, network=link)
            for number, link in LINKS.items() for address in masquerade(number)
        ),
    ],
    in_main=False,
)  # fmt: skip


@pytest.fixture
def wire():
    with router(list(LINKS.values())) as opened:
        yield opened


def check_networks(wire: Wire) -> None:
    for number, link in LINKS.items():
        for target in ELSEWHERE:
            assert wire.leaves_by(target, 4096 + number) == link
        for target in masquerade(number):
            assert wire.leaves_by(target) == link


def check_others(wire: Wire) -> None:
    for mark in OTHER_MARKS:
        for target in (*ELSEWHERE, *masquerade(77)):
            assert wire.leaves_by(target, mark) == OUT, hex(mark)


def test_marks_lead_to_tables_and_masquerade_addresses_to_links(wire):
    before = snapshot()
    assert apply(NOW).changed
    assert "unresolved" not in ip("rule") + ip("-6", "rule")
    check_networks(wire)
    check_others(wire)
    assert not apply(NOW).changed
    assert apply().changed
    assert snapshot() == before


def test_packets_while_rules_of_an_older_release_are_replaced(wire):
    class CutOff(HostKernel):
        def __init__(self, left: int) -> None:
            super().__init__()
            self.left = left

        def _send(self, message, kind, flags):
            if not self.left:
                raise OSError("cut off")
            self.left -= 1
            super()._send(message, kind, flags)

    apply(FORMER)
    check_networks(wire)
    steps = len(apply(NOW, write=False).changes)
    assert steps > len(NUMBERS) * 8
    for _step in range(steps):
        with CutOff(1) as kernel_side:
            try:
                reconcile_host_network(NOW, owner=OWNER, write=True, kernel=kernel_side)
            except NetlinkError as error:
                assert "cut off" in str(error)
        check_networks(wire)
        for target in ELSEWHERE:
            assert wire.leaves_by(target) == OUT
    assert not apply(NOW).changed
    assert "2000:" not in ip("rule") + ip("-6", "rule")


def test_a_network_whose_new_rule_fails_keeps_the_former_one(wire):
    class Failing(HostKernel):
        def add_rule(self, rule):
            if rule.fwmark == 4096 + 31:
                raise OSError("no memory")
            super().add_rule(rule)

    apply(FORMER)
    with Failing() as kernel_side:
        outcome = reconcile_host_network(NOW, owner=OWNER, write=True, kernel=kernel_side)
    assert [network for network, _reason in outcome.refused] == ["mp31"]
    check_networks(wire)
    assert apply(NOW).changed
    assert not apply(NOW).changed


def test_rules_of_others_among_those_of_networks_apply(wire):
    ip("route", "add", "default", "dev", LINKS[40], "table", "700")
    ip("rule", "add", "from", "192.0.2.77", "fwmark", "7", "lookup", "700", "priority", "1850")
    outcome = apply(NOW)
    (note,) = outcome.notes
    assert "priority 1850" in note
    assert wire.leaves_by(ELSEWHERE[0], 7) == LINKS[40]
    check_networks(wire)
    assert not apply(NOW).changed
    ip("rule", "del", "priority", "1850")
    assert [change.action for change in apply(NOW).changes] == ["create"] * 2
    check_networks(wire)


@pytest.mark.parametrize(
    "damage",
    [
        "del priority 1800",
        "del priority 1802",
        "del priority 1930",
        "add priority 1801 fwmark 0x1040/0xffffffe0 goto 1930",
        "add priority 1802 not fwmark 0x1001 lookup main",
        "add priority 1802 fwmark 0/0xff lookup main",
    ],
)
def test_damaged_rules_are_repaired_in_one_run(wire, damage):
    apply(NOW)
    good = sorted((ip("rule") + ip("-6", "rule")).splitlines())
    ip("rule", *damage.split(), *(["protocol", "85"] if damage.startswith("add") else []))
    assert apply(NOW).changed
    assert sorted((ip("rule") + ip("-6", "rule")).splitlines()) == good
    check_networks(wire)
    assert not apply(NOW).changed


def test_a_goto_that_leads_elsewhere_is_replaced_in_one_run(wire):
    apply(NOW)
    good = sorted(ip("rule").splitlines())
    ip("rule", "del", "priority", "1800")
    ip("rule", "add", "not", "fwmark", "0x1000/0xfffff000", "priority", "1800", "goto", "1900", "protocol", "85")
    assert [change.action for change in apply(NOW).changes] == ["delete", "create"]
    assert sorted(ip("rule").splitlines()) == good
