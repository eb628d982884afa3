# SPDX-License-Identifier: Apache-2.0
"""Which rules are desired where rules of others are between those that a goto passes over."""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.netlink.policy_rules import rule_name, wanted_rules
from ansible_collections.heddle.ovn.plugins.module_utils.netlink.reader import RuleState
from ansible_collections.heddle.ovn.plugins.module_utils.types.host_network import Rule

GOTO = Rule(4, "", fwmark=0x1000, fwmask=0xFFFFF000, inverted=True, priority=1800, goto=1930)
LOOKUP = Rule(4, "", fwmark=0x1001, priority=1802)


def wanted(*foreign: RuleState):
    return wanted_rules([GOTO, LOOKUP], {}, (), foreign, lambda vrf, what: 254)


@pytest.mark.parametrize(
    ("family", "priority", "is_left_out"),
    [(4, 1799, False), (4, 1800, True), (4, 1929, True), (4, 1930, False), (6, 1801, False)],
)
def test_no_goto_passes_over_a_rule_of_others(family, priority, is_left_out):
    found, notes = wanted(RuleState(family, priority, "", 0, 100))
    assert list(found.values()) == ([LOOKUP] if is_left_out else [GOTO, LOOKUP])
    assert [f"a rule of priority {priority} " in note for note in notes] == [True] * is_left_out


def test_names_of_rules():
    names = [rule_name(state, {}) for state in wanted()[0]]
    assert names == ["IPv4 1800 not mark 0x1000/0xfffff000 goto 1930", "IPv4 1802 mark 0x1001 table main"]
