# SPDX-License-Identifier: Apache-2.0
"""The engine for routed workloads: gateway addresses, routes to workloads, exported blocks, and the rules for them.

Coil v2, "Routing". Table 119 is Coil's as a whole; in table 116 own are routes of protocol 30, as rules of that
protocol, but for routes to addresses of reserved blocks: pods of Coil v1 have these until they are replaced. As long as
no rule of it is there and none is wanted, nothing else is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from ..common.addressing import family, host_route, overlapping
from ..common.change import Change, Foreign, Outcome
from ..types.routed_workloads import (
    EXPORT_TABLE,
    LEARNED_TABLE,
    PROTOCOL,
    RULES,
    WORKLOAD_TABLE,
    RoutedLink,
    RoutedWorkloads,
)
from . import kernel
from .forwarding import forwarding_steps
from .protocol.link_addresses import read_addresses, write_address
from .protocol.route_tables import TableRoute, TableRule, read_rules, read_table, write_route, write_rule
from .protocol.rtnetlink import RT_SCOPE_LINK, RT_SCOPE_UNIVERSE, RT_TABLE_MAIN, RTN_UNREACHABLE
from .step import Step, perform

SUBSTRATE = "kernel"
_METRIC = {4: 0, 6: 1024}
# The one of ovn-kubernetes for routes that are looked up last.
_LAST_METRIC = 4278198272


def reconcile_routed_workloads(desired: RoutedWorkloads, *, write: bool) -> Outcome:
    """Bring the host's own network namespace to what is desired; links are there already."""
    rules = read_rules(PROTOCOL)
    if not desired.is_used and not rules:
        return Outcome()
    # Rules come last and go first: a table is complete as long as it is looked up.
    steps = [*_rules_that_go(desired, rules), *(forwarding_steps() if desired.is_used else ())]
    for link in desired.links:
        steps += _addresses(link)
    steps += _table(WORKLOAD_TABLE, _workload_routes(desired), whole=False, kept=desired.reserved)
    steps += _table(EXPORT_TABLE, _exported_routes(desired), whole=True)
    if not desired.is_used:
        steps += _table(LEARNED_TABLE, {}, whole=True)
    steps += _rules_that_come(desired, rules)
    return perform(steps, write=write) + Outcome(foreign=tuple(_foreign()))


def planned_routed_workloads(desired: RoutedWorkloads) -> Outcome:
    """Return the changes on an empty host, for check mode before the libraries are installed."""
    found = [
        _change("create", "rule", _rule_name(rule), "", {}, {"table": rule.table}) for rule in _wanted_rules(desired)
    ]
    for table, routes in (
        (WORKLOAD_TABLE, _workload_routes(desired)), (EXPORT_TABLE, _exported_routes(desired)),
    ):  # fmt: skip
        found += [
            _change("create", "route", f"table {table} {route}", network, {}, _text(route))
            for route, network in routes.items()
        ]
    return Outcome(tuple(found))


def _change(action: str, kind: str, name: str, network: str, before: dict, after: dict) -> Change:
    return Change(SUBSTRATE, action, kind, name, network, before, after)


def _workload_routes(desired: RoutedWorkloads) -> dict[TableRoute, str]:
    """Return the routes to workloads, each with its network; what no workload has in a block is unreachable.

    Without the latter, a packet to a free address would leave by the default route, and come back by BGP.
    """
    found = {}
    for link in desired.links:
        for address in link.addresses:
            version = family(address)
            scope = RT_SCOPE_LINK if version == 4 else RT_SCOPE_UNIVERSE
            route = TableRoute(host_route(address), link.name, scope=scope, metric=_METRIC[version], protocol=PROTOCOL)
            found[route] = link.network
    for block in desired.blocks:
        found[TableRoute(block, "", kind=RTN_UNREACHABLE, metric=_LAST_METRIC, protocol=PROTOCOL)] = ""
    return found


def _exported_routes(desired: RoutedWorkloads) -> dict[TableRoute, str]:
    return {
        TableRoute(block, "lo", metric=_METRIC[family(block)], protocol=PROTOCOL): "" for block in desired.blocks
    }  # fmt: skip


def _text(route: TableRoute) -> dict:
    return {"device": route.device} if route.device else {"kind": "unreachable"}


def _table(
    table: int, wanted: dict[TableRoute, str], *, whole: bool, kept: tuple[str, ...] = ()
) -> Iterator[Step]:  # fmt: skip
    """Steps to the routes that are wanted; others that lead to a device in a block of `kept` stay."""
    there = [route for route in read_table(table) if whole or route.protocol == PROTOCOL]
    foreign = {route for route in there if route.device and any(overlapping(route.to, block) for block in kept)}
    places = {(route.to, route.metric): route for route in there}
    named = {(route.to, route.metric) for route in wanted}

    def step(action: str, route: TableRoute, network: str, before: dict, after: dict, *, remove: bool) -> Step:
        change = _change(action, "route", f"table {table} {route}", network, before, after)
        return Step(change, partial(write_route, table, route, remove=remove))

    for route in sorted(there):
        if (route.to, route.metric) not in named and route not in foreign:
            yield step("delete", route, "", _text(route), {}, remove=True)
    for route, network in wanted.items():
        present = places.get((route.to, route.metric))
        if present != route:
            action, before = ("create", {}) if present is None else ("update", _text(present))
            yield step(action, route, network, before, _text(route), remove=False)


def _addresses(link: RoutedLink) -> Iterator[Step]:
    """The gateways of a workload, and no other IPv4 address: the setting may have changed."""
    there = read_addresses(link.name)
    for address in link.gateways:
        if address not in there:
            change = _change("create", "address", f"{link.name} {address}", link.network, {}, {"scope": "link"})
            yield Step(change, partial(write_address, link.name, address))
    for address in sorted(there.difference(link.gateways)):
        if family(address) == 4:
            change = _change("delete", "address", f"{link.name} {address}", link.network, {"scope": "link"}, {})
            yield Step(change, partial(kernel.change_addresses, None, link.name, set(), {address}))


def _wanted_rules(desired: RoutedWorkloads) -> list[TableRule]:
    if not desired.is_used:
        return []
    return [TableRule(version, priority, table) for version in (4, 6) for table, priority in RULES.items()]


def _rule_name(rule: TableRule) -> str:
    return f"IPv{rule.family} {rule.priority} table {rule.table}"


def _rules(action: str, rules: list[TableRule], write: Callable, *, remove: bool) -> Iterator[Step]:
    for rule in sorted(rules):
        sides = ({"table": rule.table}, {}) if remove else ({}, {"table": rule.table})
        change = _change(action, "rule", _rule_name(rule), "", *sides)
        yield Step(change, partial(write, rule, PROTOCOL, remove=remove))


def _rules_that_go(desired: RoutedWorkloads, there: list[TableRule]) -> Iterator[Step]:
    wanted = set(_wanted_rules(desired))
    return _rules("delete", [rule for rule in there if rule not in wanted], write_rule, remove=True)


def _rules_that_come(desired: RoutedWorkloads, there: list[TableRule]) -> Iterator[Step]:
    missing = [rule for rule in _wanted_rules(desired) if rule not in there]
    return _rules("create", missing, write_rule, remove=False)


def _foreign() -> Iterator[Foreign]:
    for route in read_table(WORKLOAD_TABLE):
        if route.protocol != PROTOCOL:
            name = f"table {WORKLOAD_TABLE} {route}"
            yield Foreign(SUBSTRATE, "route", name, name)


def uplink_mtu() -> int:
    """Return the MTU for links of workloads: the smallest of the links that default routes use, else of all NICs.

    Coil, MTU detection. 1500, Ethernet's, where the host has neither.
    """
    links = kernel.read_links(None)
    default = [route for route in read_table(RT_TABLE_MAIN) if route.to in ("0.0.0.0/0", "::/0")]
    leaving = {route.device for route in default if route.device}
    nics = [link for name, link in links.items() if name != "lo" and not link["kind"] and link["up"]]
    chosen = [links[name] for name in leaving if name in links] or nics
    return min((link["mtu"] for link in chosen), default=1500)
