# SPDX-License-Identifier: Apache-2.0
"""The upgrade of the Layer2 topology as steps from one snapshot to the next (OKEP-5094, "Rolling upgrade").

A node changes its topology only while it has no workload of a Layer2 primary network. No progress is stored between
the steps: what is left to do follows from versions and placements, so an interrupted upgrade can be continued.
"""

from __future__ import annotations

import copy
import ipaddress
from collections.abc import Collection
from dataclasses import asdict, dataclass, field

from ..store.layer2_version import (
    GATEWAY_ROUTERS,
    TRANSIT_ROUTER,
    change,
    close,
    is_open,
    last_changed,
    version_of,
)
from ..store.snapshot import Snapshot, StoredObject
from .address_holders import update_holders
from .admission.cluster_limits import shortages
from .allocation.allocation import allocate
from .allocation.transit import chosen_transit_subnets
from .conditions import EPOCH
from .network.attachment import Attachments, unconnected
from .network.networks import Network, networks, running_workloads
from .workload.move import arrived, ends, moving_to
from .workload.placement import node_of


@dataclass(frozen=True)
class Blocker:
    """Why a step is blocked: where (as far as it is one host, network or workload), the rule and the remedy."""

    rule: str
    remedy: str
    node: str = ""
    network: str = ""
    workload: str = ""

    def __str__(self) -> str:
        places = (("node", self.node), ("network", self.network), ("workload", self.workload))
        where = ", ".join(f"{what} {name}" for what, name in places if name)
        return f"{where}: {self.rule}; {self.remedy}" if where else f"{self.rule}; {self.remedy}"


@dataclass(frozen=True)
class Move:
    """One workload (NAMESPACE/NAME) that changes its node.

    `kind` is `netns` or `vm`, `network` its primary Layer2 network, `source` and `target` are nodes.
    """

    workload: str
    kind: str
    network: str
    source: str
    target: str


@dataclass
class Survey:
    """Preview of an upgrade or rollback: batches of nodes, moves by drained node, and blockers."""

    open: bool
    goal: str
    versions: dict[str, str]
    last_changed: list[str]
    batches: list[list[str]] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)
    blockers: list[Blocker] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def as_dict(self) -> dict:
        """Return the survey as JSON-ready data; each blocker also as one line of text."""
        result = asdict(self)
        for blocker, entry in zip(self.blockers, result["blockers"], strict=True):
            entry["text"] = str(blocker)
        return result


def layer2_workloads(snapshot: Snapshot, nodes: set[str]) -> list[tuple[StoredObject, Network]]:
    """Return the workloads on these nodes, or migrating to them, whose primary network is Layer2, each with it."""
    attachments = Attachments(networks(snapshot))
    return [
        (workload, network)
        for workload in running_workloads(snapshot)
        if ends(workload) & nodes
        if (network := attachments.primary(workload)) is not None and network.is_transit_routed
    ]


def drain(
    before: Snapshot, nodes: list[str], version: str, now: str = EPOCH
) -> tuple[Snapshot, list[Move], list[Blocker]]:  # fmt: skip
    """Move Layer2 workloads and egress addresses of `nodes` elsewhere, workloads to nodes with `version` if possible.

    A workload whose live migration was interrupted continues to its target. `now` is the time for the status.
    """
    after = copy.deepcopy(before)
    moves, blockers = [], []
    targets = [node for node in after.of_kind("Node") if node.name not in nodes and node.spec.get("chassis")]
    load = {node.name: 0 for node in targets}
    for workload in after.of_kind("Workload"):
        if node_of(workload) in load:
            load[node_of(workload)] += 1
    upgraded = [node.name for node in targets if version_of(node) == version]
    attachments = Attachments(networks(after))

    def candidates(workload: StoredObject) -> list[str]:
        able = [node.name for node in targets if not any(unconnected(workload, node, attachments))]
        return [name for name in able if name in upgraded] or able

    for workload, network in layer2_workloads(after, set(nodes)):
        name, source = f"{workload.namespace}/{workload.name}", node_of(workload)
        if moving_to(workload) in nodes:
            blockers.append(_on_its_way(workload, network))
        elif not workload.spec.get("movable", True):
            blockers.append(Blocker("may not be moved (spec.movable is false)",
                                    "name another node in its manifest, or remove it for the time being",
                                    source, network.name, name))  # fmt: skip
        elif not (able := candidates(workload)):
            blockers.append(Blocker("there is no other node that could take it", "add a node with its networks",
                                    source, network.name, name))  # fmt: skip
        else:
            pending = moving_to(workload)
            target = pending if pending in load else min(able, key=lambda node: (load[node], node))
            load[target] += 1
            after.objects[workload.key] = arrived(workload, target)
            moves.append(Move(name, workload.spec["kind"], network.name, source, target))
    # Egress addresses leave as well: the gateway routers of these nodes are made anew.
    live = {node.name for node in after.of_kind("Node")} - set(nodes)
    return after, moves, blockers or _completed(before, after, now, live)


def go_back(before: Snapshot, now: str = EPOCH) -> tuple[Snapshot, list[Move], list[Blocker]]:
    """Move Layer2 workloads that are elsewhere to the nodes that their manifests name.

    Returns the state after it, the moves, and what blocks them; as `drain`. Nodes without a chassis get none.
    """
    after = copy.deepcopy(before)
    able = {node.name for node in after.of_kind("Node") if node.spec.get("chassis")}
    moves, blockers = [], []
    for workload, network in layer2_workloads(after, {node.name for node in after.of_kind("Node")}):
        source, target = node_of(workload), workload.spec["node"]
        if moving_to(workload):
            blockers.append(_on_its_way(workload, network))
        elif source != target and target in able:
            after.objects[workload.key] = arrived(workload, target)
            name = f"{workload.namespace}/{workload.name}"
            moves.append(Move(name, workload.spec["kind"], network.name, source, target))
    return after, moves, blockers or _completed(before, after, now)


def change_version(
    before: Snapshot, nodes: list[str], version: str, now: str = EPOCH
) -> tuple[Snapshot, list[Blocker]]:  # fmt: skip
    """Set another topology version (`1.0`, `2.0`) on drained nodes; return the state after it and what blocks it.

    With blockers the state is not to be stored. `before` is not changed.
    """
    after = copy.deepcopy(before)
    if not is_open(before):
        return after, [Blocker("the old topology was cleaned up", "it cannot be restored")]
    blockers = [
        Blocker("is still on the node", "drain the node first", node_of(workload), network.name,
                f"{workload.namespace}/{workload.name}")
        for workload, network in layer2_workloads(before, set(nodes))
    ]  # fmt: skip
    change(after, nodes, version)
    # What had no other host than these is assigned again.
    return after, blockers or _completed(before, after, now)


def clean_up(before: Snapshot, now: str = EPOCH) -> tuple[Snapshot, list[Blocker]]:
    """Remove the old topology, with the tunnel keys of its gateway routers, when every node has the new one.

    Returns the state after it and what blocks it, as `change_version`.
    """
    after = copy.deepcopy(before)
    blockers = [
        Blocker("still has gateway routers on its Layer2 switches", "upgrade it first", node.name)
        for node in before.of_kind("Node")
        if version_of(node) == GATEWAY_ROUTERS
    ]
    close(after, [network.name for network in networks(after).values() if network.is_transit_routed])
    return after, blockers or _completed(before, after, now)


def survey(snapshot: Snapshot, version: str, wanted: list[str], serial: int) -> Survey:
    """Run all steps on copies of the snapshot and return what would happen.

    `wanted` are the nodes to change, all when empty; `serial` is how many change at a time.
    """
    nodes = snapshot.of_kind("Node")
    versions = {node.name: version_of(node) for node in nodes}
    found = Survey(is_open(snapshot), version, versions, last_changed(snapshot))
    found.blockers += [
        Blocker("is not a node of this cluster", f"known are {', '.join(found.versions)}", name)
        for name in wanted
        if name not in found.versions
    ]
    if not nodes:
        # Before the first manifests there are no settings either.
        return found
    left = [name for name, current in found.versions.items() if current != version and (not wanted or name in wanted)]
    if left and not found.open:
        found.blockers.append(Blocker("the old topology was cleaned up", "it cannot be restored"))
        return found
    found.blockers += [
        Blocker("its chassis is not known", "run heddle.ovn.install, then heddle.ovn.networks", node.name)
        for node in nodes
        if node.name in left and not node.spec.get("chassis")
    ]
    if version == TRANSIT_ROUTER:
        blockers, found.notes = _subnets(snapshot)
        found.blockers += blockers
    step = snapshot
    for start in range(0, len(left), serial):
        batch = left[start : start + serial]
        found.batches.append(batch)
        step, moves, blockers = drain(step, batch, version)
        found.moves += moves
        found.blockers += blockers
        if not blockers:
            step, blockers = change_version(step, batch, version)
            found.blockers += blockers
    return found


def _subnets(snapshot: Snapshot) -> tuple[list[Blocker], list[str]]:
    """Return blockers and notes on subnets: join subnets without a spare address, moved transit subnets."""
    blockers, notes = [], []
    ids = {int(value): name for name, value in snapshot.allocations.get("node-id", {}).items()}
    for network in networks(snapshot).values():
        if not network.is_transit_routed:
            continue
        chosen = chosen_transit_subnets(snapshot, network)
        moved_on = [subnet for subnet in chosen if subnet not in snapshot.settings["transit_subnets"]]
        if moved_on:
            notes.append(f"network {network.name}: its transit subnet is {', '.join(moved_on)}, as "
                         "the configured one overlaps with one of its own")  # fmt: skip
        for join in network.join_subnets:
            last_but_one = ipaddress.ip_network(join).num_addresses - 2
            if last_but_one in ids:
                blockers.append(Blocker(f"the upgrade needs the last but one address of the join subnet {join}, "
                                        "which is this node's", "take the node out of the cluster for the upgrade",
                                        ids[last_but_one], network.name))  # fmt: skip
    return blockers, notes


def _on_its_way(workload: StoredObject, network: Network) -> Blocker:
    name, target = f"{workload.namespace}/{workload.name}", moving_to(workload)
    return Blocker(f"is migrating to {target}",
                   f"finish that first: heddle.ovn.migrate_workload -e workload={name} -e to={target}",
                   node_of(workload), network.name, name)  # fmt: skip


def _completed(before: Snapshot, after: Snapshot, now: str, live: Collection[str] | None = None) -> list[Blocker]:
    """Store in `after` what follows from a step; return what blocks it."""
    found = networks(after)
    failures = allocate(after, found) or shortages(after, found)
    if not failures:
        update_holders(before, after, now, live)
    return [Blocker(f"{key}: {rule}", remedy) for key, rule, remedy in failures]
