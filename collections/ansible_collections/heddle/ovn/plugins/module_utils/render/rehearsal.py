# SPDX-License-Identifier: Apache-2.0
"""Finds networks of a plan that cannot be rendered, on the state host, before any node is changed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Set
from dataclasses import fields, is_dataclass
from functools import cache
from itertools import repeat

from ..common.naming import DEFAULT_NETWORK
from ..types.ovsdb_row import Keys, Row
from .common.hosting_nodes import hosting_nodes
from .common.node_network import is_on, nodes_of
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
    render_southbound,
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
_WORDS = (render_bridge_flows, render_flood_ports, render_static_macs)
_OTHERS = (render_endpoints, render_virtual_machines, render_additional_chassis, render_firewall)


def unrenderable(plan: dict, places: Mapping[str, Collection[str] | None] | None = None) -> dict[str, str]:
    """Return why networks of the plan cannot be rendered, by name.

    `places` has the networks that are tried with the nodes on which something of theirs changed (None: all of them);
    without `places` all are tried on all. Each is rendered beside the default network on every such node that it is on
    and whose chassis is known, and on the next one, where those are remote; one that is on no node with a chassis is
    rendered on the first. Where the default network cannot be rendered, it is the only entry: the others cannot be
    tested then.
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
    return {name: reason for name, reason in found.items() if reason}


class Rehearsal:
    """Renders nodes with the part of the plan that concerns each, so that a fleet costs what its nodes cost.

    That are the node's networks, and of each the workloads of this node, of the one before it and of the next one
    before it that has any; in the short form the network is on no other nodes. So each workload and each node is
    rendered where it is and where it is remote, and not once for every other node. The nodes by which packets of others
    leave (EgressIP, EgressService) are rendered with all of these, but for the default network with those that changed.
    """

    def __init__(self, plan: dict, nodes: list[str]) -> None:
        self._plan, self._nodes, self._known = plan, nodes, set(nodes)
        self._holders = _holders(plan)
        self._order = {node: number for number, node in enumerate(plan["nodes"])}
        self._workloads: dict[str, dict[str, list[str]]] = {name: {} for name in plan["networks"]}
        for key, workload in plan["workloads"].items():
            for network in {interface["network"] for interface in workload["interfaces"]}:
                for node in hosting_nodes(workload):
                    self._workloads[network].setdefault(node, []).append(key)

    def reason(self, places: Mapping[str, Collection[str] | None], *, complete: bool = False) -> str:
        """Return why a node cannot be rendered with these networks, "" when all can; `places` as in `unrenderable`.

        With `complete` networks are rendered with all their nodes and, but for the default network, workloads.
        """
        here: dict[str, set[str]] = {}
        tried = [name for name in {DEFAULT_NETWORK: None, **places} if name in self._plan["networks"]]
        beside = {name: self._beside(name, places.get(name)) for name in tried}
        for name, chosen in places.items():
            found = beside.get(name, {})
            # What is of the host, and of no network, is rendered with the default network.
            everywhere = self._nodes if name == DEFAULT_NETWORK else found
            some = everywhere if chosen is None else _with_next(chosen, list(found))
            for node in (*some, *self._holders.get(name, ())):
                here.setdefault(node, set()).add(name)
        for node in self._nodes:
            if node in here:
                kept = {name: beside[name].get(node, []) for name in here[node] | {DEFAULT_NETWORK} if name in beside}
                if flaw := _flaw(self._limited(kept, complete), node):
                    return f"it cannot be rendered on node {node}: {flaw}"
        return ""

    def _beside(self, name: str, chosen: Collection[str] | None) -> dict[str, list[str]]:
        """Return by node of a network the nodes that it is rendered with, itself among them."""
        nodes, hosts = [node for node in nodes_of(self._plan, name) if node in self._known], self._workloads[name]
        holders = self._holders.get(name, set()).intersection(nodes)
        # The default network has the workloads of the whole fleet.
        whole = () if name == DEFAULT_NETWORK else nodes
        leaving = holders.union(whole if chosen is None else set(nodes).intersection(chosen))
        found: dict[str, list[str]] = {}
        host = next((node for node in reversed(nodes) if node in hosts), "")
        for number, node in enumerate(nodes):
            few = {node, nodes[number - 1], host or node, *(leaving if node in holders else holders)}
            found[node] = sorted(few, key=self._order.get)
            host = node if node in hosts else host
        return found

    def _limited(self, kept: dict[str, list[str]], complete: bool) -> dict:
        """Return the plan with these networks, each on these nodes."""
        keys: dict[str, None] = {}
        for name, nodes in kept.items():
            hosts = self._workloads[name]
            for node in hosts if complete and name != DEFAULT_NETWORK else nodes:
                keys |= dict.fromkeys(hosts.get(node, ()))
        networks = {name: self._plan["networks"][name] for name in kept}
        if not complete:
            networks = {name: {**one, "nodes": kept[name]} for name, one in networks.items()}
        workloads = {key: self._plan["workloads"][key] for key in keys}
        return plan_of_networks({**self._plan, "networks": networks, "workloads": workloads}, networks.keys())


def _with_next(chosen: Collection[str], nodes: list[str]) -> list[str]:
    """Return which of the nodes are among the chosen ones or after one of them; the first one is after the last."""
    return [node for number, node in enumerate(nodes) if node in chosen or nodes[number - 1] in chosen]


def _holders(plan: dict) -> dict[str, set[str]]:
    """Return by network the nodes by which packets of workloads on others leave."""
    found: dict[str, set[str]] = {}
    for entry in plan.get("egress_ips", {}).values():
        for network in entry["workloads"]:
            found.setdefault(network, set()).update(one["node"] for one in entry["addresses"])
    for network, entries in plan.get("egress_services", {}).items():
        found.setdefault(network, set()).update(entry["host"] for entry in entries.values())
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
    moved = {}
    for name in names:
        described = plan["networks"][name]
        able = [node for node in nodes if node in described.get("host_subnets", nodes)]
        if able and not any(is_on(described, node) for node in nodes):
            moved[name] = {**described, "nodes": able[:1]}
    return {**plan, "networks": {**plan["networks"], **moved}} if moved else plan


def _flaw(plan: dict, node: str) -> str:
    try:
        return next(_flaws(plan, node), "")
    # A defect of a renderer may raise anything, and must affect this network alone.
    except Exception as error:  # pylint: disable=broad-exception-caught
        return f"{type(error).__name__}: {error}"


def _flaws(plan: dict, node: str) -> Iterator[str]:
    for render in _ROWS:
        yield from filter(None, map(_flaw_of_row, render(plan, node)))
    for render in _WORDS:
        yield from filter(None, map(_flaw_of_word, render(plan, node)))
    for render in _OTHERS:
        render(plan, node)
    for kind in fields(network := render_host_network(plan, node)):
        yield from filter(None, map(_flaw_of_word, getattr(network, kind.name)))


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
