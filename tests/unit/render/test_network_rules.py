# SPDX-License-Identifier: Apache-2.0
"""Rules of networks: what a kernel that follows them does, with all of them and with any part of the gotos."""

from __future__ import annotations

import random
from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.heddle.ovn.plugins.module_utils.render.host.network_rules import network_rules
from ansible_collections.heddle.ovn.plugins.module_utils.types.host_network import Rule

SUBNETS = ["169.254.0.0/17", "fd69::/112"]
OTHER_MARKS = (0, 42, 1000, 1008, 1009, 0xFFF, 0x1000, 0x2000, 0x1A001021, 50000)


def rules_of(numbers):
    """The rules of IPv4 of networks with these ids, in the order of the kernel."""
    rules = network_rules([Rule(4, f"vrf{number}", fwmark=4096 + number) for number in numbers], SUBNETS)
    return sorted(rules, key=lambda rule: rule.priority)


def lookups(rules: list[Rule], mark: int, target: str = "192.0.2.1") -> tuple[list[tuple[str, str]], int]:
    """Return the table and destination of the rules that apply, and how many rules are compared up to the first one."""
    found, compared, least = [], 0, 0
    there = {rule.priority for rule in rules}
    for rule in rules:
        if rule.priority < least:
            continue
        compared += not found
        applies = not (rule.fwmark ^ mark) & rule.fwmask if rule.fwmark else True
        applies = applies and (not rule.to or ip_address(target) in ip_network(rule.to))
        if applies is rule.inverted:
            continue
        if not rule.goto:
            found.append((rule.vrf, rule.to))
        elif rule.goto in there:
            least = rule.goto
    return found, compared


@given(st.sets(st.integers(1, 4095), max_size=80), st.randoms(use_true_random=False))
def test_gotos_change_no_lookup(numbers, chance: random.Random):
    rules = rules_of(numbers)
    part = [rule for rule in rules if not rule.goto or chance.random() < 0.5]
    absent = {1, 31, 32, 4095} - numbers
    for given_rules in (rules, part):
        for number in numbers:
            assert lookups(given_rules, 4096 + number)[0] == [(f"vrf{number}", "")]
        for mark in (*OTHER_MARKS, *(4096 + number for number in absent)):
            assert lookups(given_rules, mark)[0] == []
            to_masquerade = lookups(given_rules, mark, "169.254.0.12")[0]
            assert to_masquerade == ([("", "169.254.0.0/17")] if numbers else [])


@pytest.mark.parametrize(("count", "most"), [(10, 12), (1000, 64), (4095, 161)])
def test_rules_that_a_packet_is_compared_with(count, most):
    rules = rules_of(range(1, count + 1))
    assert {lookups(rules, mark)[1] for mark in OTHER_MARKS if mark != 0x1000} == {2}
    last_of_blocks = {count, *range(31, count, 32)}
    assert max(lookups(rules, 4096 + number)[1] for number in last_of_blocks) == most


def test_priorities_do_not_depend_on_other_networks():
    few, many = set(rules_of([7, 40])), set(rules_of(range(1, 4096)))
    assert few < many
    assert {rule.priority for rule in many} == {1800, 1801, *range(1802, 1931)}


def test_a_family_without_networks_has_no_rules():
    assert {rule.family for rule in rules_of([7])} == {4}
    assert rules_of([]) == []
