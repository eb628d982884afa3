# SPDX-License-Identifier: Apache-2.0
"""Finds networks of a plan that cannot be rendered, on the state host, before any node is changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass

from ..common.naming import DEFAULT_NETWORK
from ..types.ovsdb_row import Keys, Row
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
_WORDS = (render_bridge_flows, render_flood_ports, render_static_macs)
_OTHERS = (render_endpoints, render_virtual_machines, render_additional_chassis, render_firewall, render_host_network)


def unrenderable(plan: dict, networks: Iterable[str] | None = None) -> dict[str, str]:
    """Return why networks of the plan cannot be rendered, by name; `networks` limits which are tried (None: all).

    Each is rendered beside the default network on every node that it is on and whose chassis is known; one that is on
    none of these is rendered on the first of them. Where the default network cannot be rendered, it is the only entry:
    the others cannot be tested then.
    """
    chosen = set(plan["networks"] if networks is None else networks)
    names = chosen - {DEFAULT_NETWORK}
    nodes = [name for name, node in plan["nodes"].items() if node["chassis"]]
    rehearsal = _Rehearsal(_on_some_node(plan, names, nodes), nodes)
    everywhere = DEFAULT_NETWORK in chosen
    # All at once first: failures are rare, and rendering each network alone takes longer.
    if not chosen or not rehearsal.reason(names, everywhere=everywhere):
        return {}
    reason = rehearsal.reason(set(), everywhere=True)
    if reason:
        return {DEFAULT_NETWORK: reason}
    found = {name: rehearsal.reason({name}) for name in sorted(names)}
    return {name: reason for name, reason in found.items() if reason}


class _Rehearsal:
    """Renders nodes with the part of the plan that concerns each, so that a fleet costs what its nodes cost.

    That are the node's networks, all workloads of those, and of the default network the workloads of this node and of
    one other: each workload is rendered where it is and where it is not.
    """

    def __init__(self, plan: dict, nodes: list[str]) -> None:
        self._plan, self._nodes = plan, nodes
        self._of_node: dict[str, list[str]] = {}
        self._of_network: dict[str, list[str]] = {}
        for key, workload in plan["workloads"].items():
            self._of_node.setdefault(workload["node"], []).append(key)
            for interface in workload["interfaces"]:
                if interface["network"] != DEFAULT_NETWORK:
                    self._of_network.setdefault(interface["network"], []).append(key)

    def reason(self, names: set[str], *, everywhere: bool = False) -> str:
        """Return why a node cannot be rendered with these networks, "" when all can.

        Without `everywhere` only nodes that have one of them are tried.
        """
        here: dict[str, set[str]] = {}
        for name in names:
            for node in nodes_of(self._plan, name):
                here.setdefault(node, set()).add(name)
        for number, node in enumerate(self._nodes):
            if everywhere or node in here:
                limited = self._limited(here.get(node, set()), node, self._nodes[number - 1])
                if flaw := _flaw(limited, node):
                    return f"it cannot be rendered on node {node}: {flaw}"
        return ""

    def _limited(self, names: set[str], *nodes: str) -> dict:
        keys = [key for node in nodes for key in self._of_node.get(node, ())]
        keys += [key for name in names for key in self._of_network.get(name, ())]
        workloads = {key: self._plan["workloads"][key] for key in keys}
        return plan_of_networks({**self._plan, "workloads": workloads}, names)


def plan_of_networks(plan: dict, names: set[str]) -> dict:
    """Return the plan with the default network and `names` only; workloads keep their interfaces in these."""
    kept = {DEFAULT_NETWORK, *names}
    workloads = {
        key: {**workload, "interfaces": [one for one in workload["interfaces"] if one["network"] in kept]}
        for key, workload in plan["workloads"].items()
    }
    networks = {name: network for name, network in plan["networks"].items() if name in kept}
    return {**plan, "networks": networks, "workloads": workloads}


def _on_some_node(plan: dict, names: set[str], nodes: list[str]) -> dict:
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
        for row in render(plan, node):
            yield from _flaws_of_row(row)
    for render in _WORDS:
        for word in render(plan, node):
            yield from _flaws_of_word(word)
    for render in _OTHERS:
        render(plan, node)
    for kind in fields(network := render_host_network(plan, node)):
        for word in getattr(network, kind.name):
            yield from _flaws_of_word(word)


def _flaws_of_row(row: Row) -> Iterator[str]:
    for column, value in row.columns.items():
        # A key of `Keys` that is None is to be absent.
        items = value.values if isinstance(value, Keys) else value
        if items is None or (isinstance(items, set | list | tuple) and None in items):
            yield f"{row.table} {row.key} has no value for {column}"
        elif isinstance(items, dict):
            absent = (str, type(None)) if isinstance(value, Keys) else int if (row.table, column) in _NUMBERS else str
            for key, item in items.items():
                if not isinstance(item, absent):
                    yield f"{row.table} {row.key} has {item} for {column}:{key}, and text is wanted"


def _flaws_of_word(word) -> Iterator[str]:
    for field in fields(word) if is_dataclass(word) else ():
        if getattr(word, field.name) is None:
            yield f"{word} has no value for {field.name}"
