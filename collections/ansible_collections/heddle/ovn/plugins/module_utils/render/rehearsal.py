# SPDX-License-Identifier: Apache-2.0
"""Finds networks of a plan that cannot be rendered, on the state host, before any node is changed."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from functools import cache
from itertools import repeat
from typing import NamedTuple

from ..common.addressing import family
from ..common.naming import DEFAULT_NETWORK
from ..types.ovsdb_row import Keys, Row
from .common.hosting_nodes import hosting_nodes
from .common.node_network import nodes_of
from .gateway.bridge import render_flood_ports, render_static_macs
from .gateway.bridge_flows import render_bridge_flows
from .host.firewall import render_firewall
from .host.links_and_routes import render_host_network, render_management_ports
from .host.mesh import render_mesh_bridge, render_mesh_gateways
from .host.netns import render_endpoints
from .host.qemu import render_additional_chassis, render_virtual_machines
from .host.vswitch import render_workload_ports
from .northbound import render_northbound
from .southbound import render_southbound

_ROWS = (
    render_northbound,
    render_workload_ports,
    lambda plan, node: render_mesh_bridge(plan, node, "system"),
    lambda plan, node: render_mesh_gateways(plan, node, "system"),
    render_management_ports,
)
# Maps to numbers (ovn-nb(5)); all others are maps to texts.
_NUMBERS = (("QoS", "action"),)
_SCALARS = {str, int, bool}
_TEXT, _NUMBER, _TEXT_OR_ABSENT = {str}, {int}, {str, type(None)}
_WORDS = (render_flood_ports, render_static_macs)
_OTHERS = (render_endpoints, render_virtual_machines, render_additional_chassis, render_firewall)


def unrenderable(plan: dict, places: Mapping[str, Collection[str] | None] | None = None) -> dict[str, str]:
    """Return why networks of the plan cannot be rendered, by name.

    `places` has the networks that are tried with the nodes on which something of theirs changed (None: all of them);
    without `places` all are tried on all. Each is rendered beside the default network on every such node that it is on
    and whose chassis is known, and on others where those are remote; one that is on no node with a chassis is
    rendered on the first. Where the default network cannot be rendered, it is the only entry: the others cannot be
    tested then. Of networks that cannot be rendered together, although each can alone, one is returned.
    """
    places = dict.fromkeys(plan["networks"]) if places is None else places
    if not places:
        return {}
    names = places.keys() - {DEFAULT_NETWORK}
    nodes = [name for name, node in plan["nodes"].items() if node["chassis"]]
    rehearsal = Rehearsal(_on_some_node(plan, names, nodes), nodes)
    # All at once first: failures are rare, and rendering each network alone takes longer.
    if not rehearsal.reason(places):
        return {}
    # Then with all that the nodes render, so that no network is left out for what the short form leaves out.
    if reason := rehearsal.reason({DEFAULT_NETWORK: None}, complete=True):
        return {DEFAULT_NETWORK: reason}
    found = {name: rehearsal.reason({name: places[name]}, complete=True) for name in sorted(names)}
    found = {name: reason for name, reason in found.items() if reason}
    return found or _only_together(rehearsal, places)


def _only_together(rehearsal: Rehearsal, places: Mapping[str, Collection[str] | None]) -> dict[str, str]:
    """Return the network that cannot be rendered beside others of these, where each can alone.

    That is the last one, in the order of names, of the first ones that cannot.
    """
    names = sorted(places.keys() - {DEFAULT_NETWORK})

    def reason(count: int) -> str:
        few = {DEFAULT_NETWORK, *names[:count]}
        return rehearsal.reason({name: chosen for name, chosen in places.items() if name in few}, complete=True)

    if not reason(len(names)):
        return {}
    count = bisect_left(range(len(names)), x=True, key=lambda count: bool(reason(count)))
    return {names[count - 1] if count else DEFAULT_NETWORK: f"beside other networks {reason(count)}"}


class _Beside(NamedTuple):
    """The nodes with which a network is rendered on one: `near` are that one and some before it.

    `host` is the next one before it that has workloads of the network, "" where none has any.
    """

    near: set[str]
    host: str


class Rehearsal:
    """Renders nodes with the part of the plan that concerns each, so that a fleet costs what its nodes cost.

    That are the node's networks, and of each the workloads of this node, of those before it down to the last one of its
    kind, and of the next one before it that has any; in the short form the network is on no other nodes, but for those
    by which packets of these workloads leave (EgressIP, EgressService). So each workload and each node is rendered
    where it is and, once for each kind of nodes, where it is remote, and not once for every other node. The nodes by
    which packets of others leave are rendered with all of these workloads. What a node has for each other one as a host
    (a chassis, flows about its tunnels) is rendered for those before it down to the last one of its kind, too.
    """

    def __init__(self, plan: dict, nodes: list[str]) -> None:
        self._plan, self._nodes, self._known = plan, nodes, set(nodes)
        self._leaving = _leaving(plan)
        self._ways = {network: _ways(by_node) for network, by_node in self._leaving.items()}
        self._order = {node: number for number, node in enumerate(plan["nodes"])}
        self._workloads: dict[str, dict[str, list[str]]] = {name: {} for name in plan["networks"]}
        for key, workload in plan["workloads"].items():
            for network in {interface["network"] for interface in workload["interfaces"]}:
                for node in hosting_nodes(workload):
                    self._workloads[network].setdefault(node, []).append(key)
        self._kinds = {name: _kind(node) for name, node in plan["nodes"].items()}
        self._others = self._near([*plan["nodes"]], self._known)

    def reason(self, places: Mapping[str, Collection[str] | None], *, complete: bool = False) -> str:
        """Return why a node cannot be rendered with these networks, "" when all can; `places` as in `unrenderable`.

        With `complete` networks are rendered with all their nodes and, but for the default network, workloads.
        """
        here: dict[str, dict[str, None]] = {}
        tried = [name for name in {DEFAULT_NETWORK: None, **places} if name in self._plan["networks"]]
        beside = {name: self._beside(name) for name in tried}
        for name, chosen in places.items():
            found = beside.get(name, {})
            # What is of the host, and of no network, is rendered with the default network.
            some = self._nodes if name == DEFAULT_NETWORK else [*found]
            if chosen is not None:
                some = [node for node, those in found.items() if not those.near.isdisjoint(chosen)]
            for node in (*some, *self._leaving.get(name, ())):
                here.setdefault(node, {})[name] = None
        for node in self._nodes:
            if node in here:
                kept = {name: beside[name] for name in {DEFAULT_NETWORK: None, **here[node]} if name in beside}
                others = None if complete else self._sorted(self._others[node])
                if flaw := _flaw(self._limited(kept, node, complete), node, others):
                    return f"it cannot be rendered on node {node}: {flaw}"
        return ""

    def _beside(self, name: str) -> dict[str, _Beside]:
        """Return by node of a network with which nodes it is rendered: before the first one is the last one.

        Nodes without a chassis and nodes that the network is not on are among them where they have workloads.
        """
        on, hosts = self._known.intersection(nodes_of(self._plan, name)), self._workloads[name]
        nodes = sorted(on.union(hosts) & self._order.keys(), key=self._order.__getitem__)
        near, found = self._near(nodes, on), {}
        host = next((node for node in reversed(nodes) if node in hosts), "")
        for node in nodes:
            if node in on:
                found[node] = _Beside(near[node], host)
            host = node if node in hosts else host
        return found

    def _near(self, nodes: list[str], on: Set[str]) -> dict[str, set[str]]:
        """Return by node that is `on` it and the nodes before it down to the last one of its kind that is."""
        last: dict[tuple, int] = {}
        found: dict[str, set[str]] = {}
        for number, node in enumerate(nodes * 2):
            if node in on:
                kind = self._kinds[node]
                if number >= len(nodes):
                    found[node] = {nodes[one % len(nodes)] for one in range(last[kind], number + 1)}
                last[kind] = number
        return found

    def _limited(self, kept: Mapping[str, Mapping[str, _Beside]], node: str, complete: bool) -> dict:
        """Return the plan with these networks, each on the nodes with which it is rendered on this one."""
        keys: dict[str, None] = {}
        networks = {}
        for name, beside in kept.items():
            hosts, ways = self._workloads[name], self._ways.get(name, {})
            near, host = beside.get(node, _Beside(set(), ""))
            nodes = self._sorted({*near, host} - {""})
            own = [key for one in nodes for key in hosts.get(one, ())]
            if complete and name != DEFAULT_NETWORK:
                own = [key for those in hosts.values() for key in those]
            keys |= dict.fromkeys([*own, *self._leaving.get(name, {}).get(node, ())])
            networks[name] = self._plan["networks"][name]
            if not complete:
                on = self._sorted({*nodes, *(one for key in own for one in ways.get(key, ()))} & beside.keys())
                networks[name] = {**networks[name], "nodes": on}
        workloads = {key: self._plan["workloads"][key] for key in keys if key in self._plan["workloads"]}
        return plan_of_networks({**self._plan, "networks": networks, "workloads": workloads}, networks.keys())

    def _sorted(self, nodes: Set[str]) -> list[str]:
        return sorted(nodes, key=self._order.__getitem__)


def _kind(node: dict) -> tuple:
    """Return on what it depends how a node renders others.

    The topology of its routers, its gateway mode, and the families that it has on the provider network.
    """
    gateway = node.get("gateway") or {}
    families = frozenset(map(family, gateway.get("addresses", ())))
    return node.get("layer2_topology_version"), gateway.get("mode"), families


def _leaving(plan: dict) -> dict[str, dict[str, list[str]]]:
    """Return by network and node the workloads of any node whose packets leave by this one."""
    found: dict[str, dict[str, list[str]]] = {}
    for entry in plan.get("egress_ips", {}).values():
        for network, workloads in entry["workloads"].items():
            for node in {one["node"] for one in entry["addresses"]}:
                found.setdefault(network, {}).setdefault(node, []).extend(workloads)
    for network, entries in plan.get("egress_services", {}).items():
        for entry in entries.values():
            found.setdefault(network, {}).setdefault(entry["host"], []).extend(entry["workloads"])
    return found


def _ways(leaving: Mapping[str, Iterable[str]]) -> dict[str, set[str]]:
    """Return by workload the nodes by which its packets leave."""
    found: dict[str, set[str]] = {}
    for node, workloads in leaving.items():
        for key in workloads:
            found.setdefault(key, set()).add(node)
    return found


def plan_of_networks(plan: dict, names: Set[str]) -> dict:
    """Return the plan with the default network and `names` only; workloads keep their interfaces in these."""
    kept = {DEFAULT_NETWORK, *names}
    workloads = {
        key: {**workload, "interfaces": [one for one in workload["interfaces"] if one["network"] in kept]}
        for key, workload in plan["workloads"].items()
    }
    networks = {name: network for name, network in plan["networks"].items() if name in kept}
    return {**plan, "networks": networks, "workloads": workloads}


def _on_some_node(plan: dict, names: Set[str], nodes: list[str]) -> dict:
    """Return the plan in which each of these networks is on one of the nodes, as soon as one can have it."""
    moved, known = {}, set(nodes)
    for name in names:
        described = plan["networks"][name]
        having = described.get("host_subnets", known)
        able = next((node for node in nodes if node in having), None)
        if able is not None and known.isdisjoint(nodes_of(plan, name)):
            moved[name] = {**described, "nodes": [able]}
    return {**plan, "networks": {**plan["networks"], **moved}} if moved else plan


def _flaw(plan: dict, node: str, others: list[str] | None) -> str:
    try:
        return next(_flaws(plan, node, others), "")
    # A defect of a renderer may raise anything, and must affect this network alone.
    except Exception as error:  # pylint: disable=broad-exception-caught
        return f"{type(error).__name__}: {error}"


def _flaws(plan: dict, node: str, others: list[str] | None) -> Iterator[str]:
    yield from _flaws_of_rows(render_southbound(plan, node, others))
    for render in _ROWS:
        yield from _flaws_of_rows(render(plan, node))
    yield from filter(None, map(_flaw_of_word, render_bridge_flows(plan, node, others)))
    for render in _WORDS:
        yield from filter(None, map(_flaw_of_word, render(plan, node)))
    for render in _OTHERS:
        render(plan, node)
    for kind in fields(network := render_host_network(plan, node)):
        yield from filter(None, map(_flaw_of_word, getattr(network, kind.name)))


def _flaws_of_rows(rows: Sequence[Row]) -> Iterator[str]:
    yield from filter(None, map(_flaw_of_row, rows))
    if len({(row.table, row.key) for row in rows}) != len(rows):
        counted = Counter((row.table, row.key) for row in rows)
        yield from (f"{table} {key} is rendered {count} times" for (table, key), count in counted.items() if count > 1)


def _flaw_of_row(row: Row) -> str:
    for column, value in row.columns.items():
        # Most values, and a rehearsal sees some hundred thousand.
        if type(value) in _SCALARS:
            continue
        # A key of `Keys` that is None is to be absent.
        items = value.values if isinstance(value, Keys) else value
        if items is None or (isinstance(items, set | list | tuple) and None in items):
            return f"{row.table} {row.key} has no value for {column}"
        if isinstance(items, dict):
            wanted = (
                _TEXT_OR_ABSENT if isinstance(value, Keys) else _NUMBER if (row.table, column) in _NUMBERS else _TEXT
            )
            # Types first: there are few of them, and many values.
            if not set(map(type, items.values())) <= wanted:
                for key, item in items.items():
                    if not isinstance(item, tuple(wanted)):
                        return f"{row.table} {row.key} has {item} for {column}:{key}, and text is wanted"
    return ""


def _flaw_of_word(word) -> str:
    names = _names_of_fields(type(word))
    values = [*map(getattr, repeat(word), names)]
    return f"{word} has no value for {names[values.index(None)]}" if None in values else ""


@cache
def _names_of_fields(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind)) if is_dataclass(kind) else ()
