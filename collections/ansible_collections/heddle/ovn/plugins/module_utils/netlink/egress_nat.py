# SPDX-License-Identifier: Apache-2.0
"""The engine for tunnels, tables and rules of Egress routers and clients, in one network namespace at a time.

Own are devices with Coil's names, rules and routes with protocol 30, and FoU's listeners. The marker device is made
first and removed last, so a namespace without it has nothing of this.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from ..common.addressing import family
from ..common.change import Change, Outcome
from ..types.egress_nat import (
    CATCH_ALL,
    FALLBACK,
    FOU_PORT,
    MARKER,
    NARROW_TABLE,
    OVERHEAD,
    PROTOCOL,
    UPLINK,
    WIDE_TABLE,
    EgressNamespace,
    EgressRule,
    Tunnel,
    TunnelRoute,
)
from . import kernel
from .protocol import conntrack, fou
from .protocol.route_tables import TableRoute, TableRule, read_rules, read_table, write_route, write_rule
from .protocol.rtnetlink import RT_SCOPE_UNIVERSE
from .step import Step, perform

SUBSTRATE = "kernel"
_METRIC = {4: 0, 6: 1024}
_TABLES = (NARROW_TABLE, WIDE_TABLE)
_PREFIXES = ("fou4_", "fou6_")
# Before tunnels are made: they inherit the setting. What comes out of them has sources that are routed elsewhere.
_UNFILTERED = {"net/ipv4/conf/default/rp_filter": "0", "net/ipv4/conf/all/rp_filter": "0"}
_FORWARDING = {"net/ipv4/ip_forward": "1", "net/ipv6/conf/all/forwarding": "1"}


def reconcile_egress(desired: EgressNamespace, *, write: bool) -> Outcome:
    """Bring the current network namespace, `desired.namespace`, to exactly what is desired."""
    links = kernel.read_links(None)
    tunnels = fou.read_tunnels()
    steps = [*_settings(desired), *_marker(desired.namespace, links)]
    steps += _listeners(desired.namespace, desired.families)
    steps += _catch_alls(desired, tunnels)
    steps += _routes_that_go(desired)
    made: set[str] = set()
    steps += _tunnels(desired, tunnels, links, made)
    steps += _routes_that_come(desired, made)
    steps += _rules(desired)
    steps += _flows_that_go(desired)
    return perform(steps, write=write)


def planned_egress(desired: EgressNamespace) -> Outcome:
    """Return the change in a namespace that is not there yet."""
    after = {"tunnels": [one.name for one in desired.tunnels], "rules": len(desired.rules)}
    return Outcome((_change("create", "egress", desired.namespace, {}, after),))


def remove_egress(namespace: str, *, write: bool) -> Outcome:
    """Remove all of it from the current network namespace, whose name is given for messages."""
    nothing = EgressNamespace(namespace, (), (), (), (), None)
    tunnels = fou.read_tunnels()
    steps = [*_rules(nothing), *_routes_that_go(nothing), *_tunnels(nothing, tunnels, {}, set())]
    steps += _catch_alls(nothing, tunnels)
    steps += _listeners(namespace, ())
    change = _change("delete", "link", f"{namespace}/{MARKER}", {"kind": "dummy"}, {})
    return perform([*steps, Step(change, partial(fou.remove_device, MARKER))], write=write)


def is_marked() -> bool:
    """Return whether the current network namespace has anything of an Egress."""
    return MARKER in kernel.read_links(None)


def _change(action: str, kind: str, name: str, before: dict, after: dict) -> Change:
    return Change(SUBSTRATE, action, kind, name, "", before, after)


def _settings(desired: EgressNamespace) -> Iterator[Step]:
    wanted = {**_UNFILTERED, **(_FORWARDING if desired.forwards else {})}
    for name, value in wanted.items():
        path = f"/proc/sys/{name}"
        try:
            with open(path, encoding="ascii") as text:
                there = text.read().strip()
        except FileNotFoundError:
            # A kernel without IPv6.
            continue
        if there != value:
            change = _change("update", "sysctl", f"{desired.namespace}/{name}", {"value": there}, {"value": value})
            yield Step(change, partial(_write_setting, path, value))


def _write_setting(path: str, value: str) -> None:
    with open(path, "w", encoding="ascii") as text:
        text.write(value)


def _marker(namespace: str, links: dict) -> Iterator[Step]:
    if MARKER not in links:
        change = _change("create", "link", f"{namespace}/{MARKER}", {}, {"kind": "dummy"})
        yield Step(change, partial(fou.add_marker, MARKER))


def _listeners(namespace: str, families: tuple[int, ...]) -> Iterator[Step]:
    there = fou.read_listeners()
    for version in (4, 6):
        wanted = version in families
        if wanted != (there.get(version) == FOU_PORT):
            action, sides = ("create", ({}, {"port": FOU_PORT})) if wanted else ("delete", ({"port": FOU_PORT}, {}))
            if wanted or version in there:
                change = _change(action, "FoU listener", f"{namespace} IPv{version}", *sides)
                yield Step(change, partial(fou.write_listener, version, FOU_PORT, remove=not wanted))


def _catch_alls(desired: EgressNamespace, tunnels: dict[str, fou.TunnelLink]) -> Iterator[Step]:
    for version, name in CATCH_ALL.items():
        wanted, there = version in desired.families, tunnels.get(name)
        if there is not None and (not wanted or not (there.is_catch_all and there.up)):
            change = _change("delete", "tunnel", f"{desired.namespace}/{name}", {"remote": "any"}, {})
            yield Step(change, partial(fou.remove_device, name))
            there = None
        if wanted and there is None:
            change = _change("create", "tunnel", f"{desired.namespace}/{name}", {}, {"remote": "any"})
            yield Step(change, partial(fou.add_catch_all, name, version))
    renamed = FALLBACK if desired.families else {new: old for old, new in FALLBACK.items()}
    for old, new in renamed.items():
        if old in tunnels:
            change = _change("update", "tunnel", f"{desired.namespace}/{old}", {"name": old}, {"name": new})
            yield Step(change, partial(fou.rename_device, old, new))


def _tunnels(desired: EgressNamespace, there: dict[str, fou.TunnelLink], links: dict, made: set[str]) -> Iterator[Step]:
    """The kernel does not change ports of a tunnel, so one that differs is made anew; `made` gets their names."""
    wanted = {one.name: one for one in desired.tunnels}
    mtu = links[UPLINK]["mtu"] if UPLINK in links else 0
    for name, one in sorted(there.items()):
        if name.startswith(_PREFIXES) and name not in wanted:
            change = _change("delete", "tunnel", f"{desired.namespace}/{name}", _text(one), {})
            yield Step(change, partial(fou.remove_device, name))
    for name, tunnel in wanted.items():
        target = _target(tunnel, mtu)
        present = there.get(name)
        if present == target:
            continue
        made.add(name)
        action, before = ("create", {}) if present is None else ("update", _text(present))
        change = _change(action, "tunnel", f"{desired.namespace}/{name}", before, _text(target))
        yield Step(change, partial(_make, target, anew=present is not None))


def _target(tunnel: Tunnel, mtu: int) -> fou.TunnelLink:
    version = family(tunnel.remote)
    return fou.TunnelLink(
        tunnel.name, "ip6tnl" if version == 6 else "ipip", tunnel.local, tunnel.remote, tunnel.source_port, FOU_PORT,
        mtu - OVERHEAD[version], True, False,
    )  # fmt: skip


def _make(target: fou.TunnelLink, *, anew: bool) -> None:
    if anew:
        fou.remove_device(target.name)
    fou.add_tunnel(target.name, target.local, target.remote, target.source_port, target.port, target.mtu)


def _text(tunnel: fou.TunnelLink) -> dict:
    return {
        "local": tunnel.local, "remote": tunnel.remote, "source port": tunnel.source_port or "auto",
        "mtu": tunnel.mtu, "up": tunnel.up,
    }  # fmt: skip


def _routes_that_go(desired: EgressNamespace) -> Iterator[Step]:
    wanted = {(route.table, route.to) for route in desired.routes}
    for table in _TABLES:
        for route in sorted(read_table(table)):
            if route.protocol == PROTOCOL and (table, route.to) not in wanted:
                name = f"{desired.namespace} table {table} {route.to}"
                change = _change("delete", "route", name, {"device": route.device}, {})
                yield Step(change, partial(write_route, table, route, remove=True))


def _routes_that_come(desired: EgressNamespace, made: set[str]) -> Iterator[Step]:
    """The routes of a tunnel go with it when that is made anew."""
    there = {(table, route.to): route for table in _TABLES for route in read_table(table)}
    for route in desired.routes:
        present, target = there.get((route.table, route.to)), _route(route)
        if present == target and route.tunnel not in made:
            continue
        action, before = ("create", {}) if present is None else ("update", {"device": present.device})
        name = f"{desired.namespace} table {route.table} {route.to}"
        change = _change(action, "route", name, before, {"device": route.tunnel})
        yield Step(change, partial(write_route, route.table, target, remove=False))


def _route(route: TunnelRoute) -> TableRoute:
    return TableRoute(
        route.to, route.tunnel, scope=RT_SCOPE_UNIVERSE, metric=_METRIC[family(route.to)], protocol=PROTOCOL
    )  # fmt: skip


def _flows_that_go(desired: EgressNamespace) -> Iterator[Step]:
    """End a client's flows to routers that are gone: as long as it sends, each would go on for ever."""
    routers = {tunnel.remote: tunnel.routers for tunnel in desired.tunnels if not desired.forwards}
    for flow in conntrack.read_flows({FOU_PORT}) if routers else ():
        if flow.target not in routers.get(flow.address, (flow.target,)):
            name = f"{desired.namespace} to {flow.address}"
            change = _change("delete", "flow", name, {"router": flow.target}, {})
            yield Step(change, partial(conntrack.end_flow, flow))


def _rules(desired: EgressNamespace) -> Iterator[Step]:
    wanted = {_rule(rule) for rule in desired.rules}
    there = set(read_rules(PROTOCOL))
    for rule in sorted(there - wanted):
        change = _change("delete", "rule", _rule_name(desired.namespace, rule), {"table": rule.table}, {})
        yield Step(change, partial(write_rule, rule, PROTOCOL, remove=True))
    for rule in sorted(wanted - there):
        change = _change("create", "rule", _rule_name(desired.namespace, rule), {}, {"table": rule.table})
        yield Step(change, partial(write_rule, rule, PROTOCOL, remove=False))


def _rule(rule: EgressRule) -> TableRule:
    return TableRule(rule.family, rule.priority, rule.table, rule.to, rule.iif, rule.fwmark)


def _rule_name(namespace: str, rule: TableRule) -> str:
    selector = f" to {rule.to}" if rule.to else f" iif {rule.iif}" if rule.iif else ""
    selector += f" mark {rule.fwmark}" if rule.fwmark else ""
    return f"{namespace} IPv{rule.family} {rule.priority}{selector}"
