# SPDX-License-Identifier: Apache-2.0
"""Decides which nodes each network is on: those that need it (ovn-kubernetes, "Dynamic UDN Node Allocation").

The default network is on all nodes. A user-defined one is on the nodes with a role in it, and on a node that has lost
its last role until the grace period is over. The roles follow from the state; only since when a node has none is
stored, in the status of the network. Without the setting `dynamic_networks` every network is on every node.
"""

from __future__ import annotations

import calendar
import time
from collections.abc import Collection

from ...store.layer2_version import is_open
from ...store.settings import DYNAMIC_NETWORKS, GRACE_PERIOD
from ...store.snapshot import Snapshot
from ..allocation.allocation import nodes_with_subnets
from ..conditions import FALSE, NODES_SELECTED, TRUE, described, with_condition
from ..egress.egress_ips import EGRESS_IP, EgressSelection, holders
from ..egress.egress_services import EgressServiceSelection
from ..kind_names import NETWORK_KINDS
from ..services.load_balancers import service_nodes
from ..services.service_endpoints import ServiceEndpoints
from ..workload.move import ends
from .attachment import Attachments
from .networks import Network, networks, running_workloads

# Roles of a node in a network.
WORKLOAD = "workload"
EGRESS = "egress"
SERVICE_ENTRANCE = "service"
MESH = "mesh"
LAYER2_UPGRADE = "layer2-upgrade"
_LEAVING = "leavingNodes"
_TIME = "%Y-%m-%dT%H:%M:%SZ"

Roles = dict[str, dict[str, set[str]]]


def is_needed(*, roles: Collection[str], is_leaving: bool) -> bool:
    """Return whether a node that can have a network has it."""
    return bool(roles) or is_leaving


def leaving_since(*, roles: Collection[str], since: str | None, grace: int, now: str) -> str | None:
    """Return since when a node that has a network has no role in it; None when it has one, or the grace period is over.

    `since` is what was stored before, `grace` the period in seconds. A clock that was set back starts it anew.
    """
    if roles:
        return None
    began = min(since or now, now)
    return began if _seconds(now) - _seconds(began) < grace else None


def roles(
    snapshot: Snapshot,
    found: dict[str, Network],
    egress_ips: EgressSelection | None = None,
    egress_services: EgressServiceSelection | None = None,
) -> Roles:
    """Return by network and node the roles that the node has in the network.

    `egress_ips` and `egress_services` are the selections of the snapshot, where they are known already. A further role
    (endpoints of a service, gateways of other networks) is added here.
    """
    held: Roles = {name: {} for name in found}
    attachments = Attachments(found)
    for workload in running_workloads(snapshot):
        # A workload that migrates has both nodes: its target needs the network before it arrives.
        both = ends(workload)
        for one in attachments.of(workload):
            for node in both:
                held[one.network.name].setdefault(node, set()).add(WORKLOAD)
    for network in found.values():
        if network.is_mesh:
            # Any host may be on the way between two others.
            held[network.name] = {node.name: {MESH} for node in snapshot.of_kind("Node")}
    selection = egress_ips or EgressSelection(snapshot, found)
    for entry in snapshot.of_kind(EGRESS_IP):
        for network in selection.networks(entry.name):
            for node in holders(entry).values():
                held[network].setdefault(node, set()).add(EGRESS)
    leaving = egress_services or EgressServiceSelection(snapshot, ServiceEndpoints(snapshot, found))
    for name, host in leaving.hosts.items():
        held[leaving.networks[name].name].setdefault(host, set()).add(EGRESS)
    for network, nodes in service_nodes(snapshot, found):
        for node in nodes:
            held[network].setdefault(node, set()).add(SERVICE_ENTRANCE)
    if is_open(snapshot):
        # The upgrade moves every workload over all nodes, and compares the routers of all nodes meanwhile.
        for node in snapshot.of_kind("Node"):
            for network in found.values():
                if network.is_transit_routed:
                    held[network.name].setdefault(node.name, set()).add(LAYER2_UPGRADE)
    return held


def nodes_of_networks(
    snapshot: Snapshot,
    found: dict[str, Network],
    egress_ips: EgressSelection | None = None,
    egress_services: EgressServiceSelection | None = None,
) -> dict[str, list[str]]:
    """Return by network the nodes that it is on, in the order of the nodes; `found` are the networks in effect.

    A network that is on every node that can have it, whatever runs there, is left out. The selections are as for
    `roles`.
    """
    if not snapshot.settings.get(DYNAMIC_NETWORKS, False):
        return {}
    return _nodes_with_roles(snapshot, found, roles(snapshot, found, egress_ips, egress_services))


def _nodes_with_roles(snapshot: Snapshot, found: dict[str, Network], held: Roles) -> dict[str, list[str]]:
    order = {node: place for place, node in enumerate(_node_names(snapshot))}
    return {
        name: [
            node
            # Not all nodes: with many networks, each on few of many nodes, that takes longer than all the rest.
            for node in nodes_with_subnets(
                snapshot, network, sorted((held[name].keys() | leaving) & order.keys(), key=order.get)
            )
            if is_needed(roles=held[name].get(node, ()), is_leaving=node in leaving)
        ]
        for name, network in found.items()
        if not network.is_default
        for leaving in (snapshot.objects[network.object_key].status.get(_LEAVING, {}),)
    }


def select_nodes(before: Snapshot, after: Snapshot, now: str, egress_ips: EgressSelection | None = None) -> None:
    """Store in each network of `after` which nodes are leaving it, and its condition NodesSelected.

    `egress_ips` is the selection of `after`, where it is known already.
    Every step that changes roles calls this (`address_holders`).
    """
    found = networks(after)
    # The roles do not depend on what is stored here.
    is_dynamic = after.settings.get(DYNAMIC_NETWORKS, False)
    held = roles(after, found, egress_ips) if is_dynamic else {}
    leaving = _leaving(before, after, held, now)
    for entry in after.of_kind(*NETWORK_KINDS):
        after.objects[entry.key] = entry.with_status(**{_LEAVING: leaving.get(entry.key)})
    nodes_of = _nodes_with_roles(after, found, held) if is_dynamic else {}
    selected = {found[name].object_key: nodes for name, nodes in nodes_of.items()}
    for entry in after.of_kind(*NETWORK_KINDS):
        condition = _selected(len(selected[entry.key])) if entry.key in selected else None
        after.objects[entry.key] = with_condition(entry, NODES_SELECTED, condition, now)


def _leaving(before: Snapshot, after: Snapshot, held: Roles, now: str) -> dict[str, dict[str, str]]:
    """Return by object of a network the nodes that are leaving it, with the time since when."""
    if not before.settings or not after.settings.get(DYNAMIC_NETWORKS, False):
        return {}
    found, there = networks(before), set(_node_names(after))
    had, nodes = nodes_of_networks(before, found), _node_names(before)
    leaving: dict[str, dict[str, str]] = {}
    for name in (name for name in found if name in held and not found[name].is_default):
        stored = before.objects[found[name].object_key].status.get(_LEAVING, {})
        for node in had[name] if name in had else nodes_with_subnets(before, found[name], nodes):
            since = leaving_since(
                roles=held[name].get(node, ()), since=stored.get(node), grace=after.settings[GRACE_PERIOD], now=now
            )
            if since and node in there:
                leaving.setdefault(found[name].object_key, {})[node] = since
    return leaving


def _selected(count: int) -> dict:
    """Return the condition as ovn-kubernetes writes it; False is not an error."""
    if not count:
        return described(NODES_SELECTED, FALSE, "DynamicAllocation", "no nodes currently rendered with network")
    return described(NODES_SELECTED, TRUE, "DynamicAllocation", f"{count} node(s) rendered with network")


def _node_names(snapshot: Snapshot) -> list[str]:
    return [node.name for node in snapshot.of_kind("Node")]


def _seconds(moment: str) -> int:
    return calendar.timegm(time.strptime(moment, _TIME))
