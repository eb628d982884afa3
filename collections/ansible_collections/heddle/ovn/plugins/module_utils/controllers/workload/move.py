# SPDX-License-Identifier: Apache-2.0
"""Live migration of a workload, as recorded in the state.

The move is recorded before anything happens and until it is over, so that every reader of the state finds both nodes.
The final node of the workload is its placement.
"""

from __future__ import annotations

import copy
from collections.abc import Set
from dataclasses import replace

from ...store.snapshot import Snapshot, StoredObject
from ..network.attachment import Attachments, unconnected
from ..network.networks import is_pending, networks
from .placement import moved, node_of

_STATUS = "moving_to"


class MoveRefused(Exception):
    """The workload cannot be moved there; the text has the reason and the remedy."""


def moving_to(workload: StoredObject) -> str | None:
    """Return the node that a virtual machine is being migrated to; None when no migration is recorded."""
    return workload.status.get(_STATUS)


def ends(workload: StoredObject) -> set[str]:
    """Return the nodes that may run the workload: two while it moves."""
    return {node for node in (node_of(workload), moving_to(workload)) if node}


def arrived(workload: StoredObject, node: str) -> StoredObject:
    """Return the workload as stored when it is on a node and not migrating."""
    there = moved(workload, node)
    return replace(there, status={key: value for key, value in there.status.items() if key != _STATUS})


def completed(workload: StoredObject, nodes: Set[str]) -> StoredObject:
    """Return the workload without a move to a node that was removed; it stays on its source."""
    target = moving_to(workload)
    return workload if target is None or target in nodes else arrived(workload, node_of(workload))


def begin_move(before: Snapshot, name: str, node: str) -> tuple[Snapshot, dict]:
    """Record that a workload (`namespace/name`) migrates to a node; return the next snapshot and the move.

    The move has `workload`, `from`, `to` and `pending`: whether there is anything to do. A move in progress may
    be continued, or reverted by naming the node that it started from. Raises MoveRefused.
    """
    workload = _workload(before, name)
    here, pending = node_of(workload), moving_to(workload)
    if is_pending(workload) and pending is None:
        raise MoveRefused(f"workload {name} waits and does not run yet; heddle.ovn.status says for what")
    if workload.spec["kind"] != "vm":
        raise MoveRefused(
            f"workload {name} is a network namespace, and nothing can move that while it runs; name the other node in "
            "its manifest, and heddle.ovn.networks starts it there"
        )
    nodes = {entry.name: entry.spec for entry in before.of_kind("Node")}
    if not nodes.get(node, {}).get("chassis"):
        known = ", ".join(name for name, spec in nodes.items() if spec.get("chassis"))
        raise MoveRefused(f"node {node} is not known as a chassis; these are: {known}")
    if pending not in (None, node) and node != here:
        raise MoveRefused(
            f"workload {name} is migrating from {here} to {pending}: finish that with to={pending}, or take it back "
            f"with to={here}"
        )
    lacking = unconnected(workload, before.objects[f"Node/{node}"], Attachments(networks(before)))
    for rule, remedy in lacking if node != here else ():
        raise MoveRefused(f"workload {name} cannot run there: {rule}; {remedy}")
    move = {"workload": name, "from": here, "to": pending or node, "pending": pending is not None or node != here}
    if node == here:
        return before, move
    return _with_status(before, workload, {**workload.status, _STATUS: node}), move


def end_move(before: Snapshot, name: str, node: str) -> Snapshot:
    """Return the state in which the migration of a workload (NAMESPACE/NAME) has ended on `node`, one of its two.

    MoveRefused when there is no such workload, or `node` is neither of them.
    """
    workload = _workload(before, name)
    if node not in ends(workload):
        raise MoveRefused(f"workload {name} runs on {node_of(workload)} and is not migrating to {node}")
    return _with_status(before, workload, arrived(workload, node).status)


def _workload(snapshot: Snapshot, name: str) -> StoredObject:
    workload = snapshot.objects.get(f"Workload/{name}")
    if workload is None:
        raise MoveRefused(f"there is no workload {name}; write it as NAMESPACE/NAME")
    return workload


def _with_status(before: Snapshot, workload: StoredObject, status: dict) -> Snapshot:
    after = copy.deepcopy(before)
    after.objects[workload.key] = replace(workload, status=status)
    return after


# QEMU's states (QMP, `query-status`) of a VM that did not arrive, and of one that left; `absent`: no QEMU runs.
_NOT_ARRIVED, _LEFT = ("absent", "inmigrate"), ("absent", "postmigrate")


def vm_location(move: dict, here: str, there: str) -> dict:
    """Return the `node` where a VM runs, "" when that is not known, and whether it is `lost` at both ends.

    `here` and `there` are its states at `move`'s `from` and `to`; any word that is not a state of QEMU, such as
    `nothing` for an end that did not answer, is inconclusive. A lost VM is restarted on the source of its move.
    """
    lost = there in _NOT_ARRIVED and here in _LEFT
    stayed = move["from"] if here == "running" or lost else ""
    return {"node": move["to"] if there == "running" else stayed, "lost": lost}
