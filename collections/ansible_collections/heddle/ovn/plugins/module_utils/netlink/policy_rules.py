# SPDX-License-Identifier: Apache-2.0
"""Policy rules as they are when they are there, and what those for tables that are not Heddle's need."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from ..types.host_network import WHOLE_MARK, Rule, Sysctl
from .named_tables import named_table, ports_of
from .protocol.rtnetlink import RT_TABLE_MAIN
from .reader import LinkState, RuleState


def wanted_rules(
    rules: Iterable[Rule],
    links: Mapping[str, LinkState],
    own_tables: Collection[int],
    foreign: Collection[RuleState],
    table_of: Callable[[str, str], int],
) -> tuple[dict[RuleState, Rule], tuple[str, ...]]:
    """Return the desired rules by their state, and notes about those that are left out.

    These are rules for tables that the host does not have, and gotos that would pass over a rule of others. `links` are
    those of others, `own_tables` the tables of Heddle's VRFs: through these, packets would get into other networks.
    `foreign` are rules of others. `table_of(vrf, what)` returns the table of one of Heddle's VRFs, or the main one
    for "".
    """
    wanted: dict[RuleState, Rule] = {}
    unknown: dict[str, None] = {}
    between: set[int] = set()
    for rule in rules:
        if rule.goto:
            passed = {
                one.priority
                for one in foreign
                if one.family == rule.family and rule.priority <= one.priority < rule.goto
            }
            between |= passed
            if not passed:
                wanted[_state(rule, 0)] = rule
            continue
        table = (
            named_table(rule.table, links) if rule.table else table_of(rule.vrf, f"rule of priority {rule.priority}")
        )
        if rule.table and (table is None or table in own_tables):
            unknown[rule.table] = None
            continue
        wanted[_state(rule, table)] = rule
    left_out = "besides those of networks: rules for it are left out"
    notes = [f"there is no routing table {name} on this host {left_out}" for name in unknown]
    notes += [
        f"a rule of priority {priority} that is not Heddle's is among those of networks, which packets therefore pass "
        "one by one; another priority would make routing faster"
        for priority in sorted(between)
    ]
    return wanted, tuple(notes)


def _state(rule: Rule, table: int) -> RuleState:
    return RuleState(
        rule.family, rule.priority, rule.to, rule.fwmark, table, rule.source, rule.source_port, rule.fwmask,
        rule.inverted, rule.goto,
    )  # fmt: skip


def selectors(state: RuleState) -> RuleState:
    """Return what a rule has in common with those for the same packets."""
    return replace(state, priority=0, table=0)


def is_lookup(state: RuleState | None) -> bool:
    """Return whether a rule leads packets to a table, so that it may go only when another one does."""
    return state is not None and not state.goto


def forwarding(rules: Iterable[Rule], links: Mapping[str, LinkState]) -> list[Sysctl]:
    """Return the settings by which links of the VRFs that rules name forward replies (IPv4; IPv6 has none for each).

    The kernel looks up what arrives in a VRF in its table only, so the host does not route between other networks.
    """
    networks = {rule.table: rule.network for rule in rules if rule.table}
    return [
        Sysctl(f"net/ipv4/conf/{port}/forwarding", "1", network=network)
        for name, network in networks.items()
        for port in ports_of(name, links)
    ]


def rule_name(state: RuleState, names: Mapping[int, str], vrf: str = "") -> str:
    """Return how a list of changes names a rule; `names` are those of VRFs' tables."""
    parts = [f"IPv{state.family} {state.priority}"]
    parts += ["not"] if state.inverted else []
    parts += [f"from {state.source}"] if state.source else []
    parts += [f"port {state.source_port}"] if state.source_port else []
    parts += [f"to {state.to}"] if state.to else []
    mask = f"/{state.fwmask:#x}" if state.fwmask != WHOLE_MARK else ""
    parts += [f"mark {state.fwmark:#x}{mask}"] if state.fwmark else []
    if state.goto:
        return " ".join([*parts, f"goto {state.goto}"])
    known = {RT_TABLE_MAIN: "main", **names}
    return " ".join([*parts, f"table {vrf or known.get(state.table, state.table)}"])
