# SPDX-License-Identifier: Apache-2.0
"""A workload on its way from one node to another while it runs.

The move is recorded before anything happens and until it is over, so that whoever looks meanwhile knows of both ends.
Where the workload ends up is its placement.
"""

from __future__ import annotations

import copy
from dataclasses import replace

from ..store.snapshot import Snapshot, StoredObject
from .networks import is_pending
from .placement import moved, node_of

_STATUS = "moving_to"


class MoveRefused(Exception):
    """The workload cannot be moved there; the text says why and what to do."""


def moving_to(workload: StoredObject) -> str | None:
    """Return the node that a workload is being moved to, if any."""
    return workload.status.get(_STATUS)


def ends(workload: StoredObject) -> set[str]:
    """Return the nodes that may have the workload: two while it moves."""
    return {node for node in (node_of(workload), moving_to(workload)) if node}


def arrived(workload: StoredObject, node: str) -> StoredObject:
    """Return the workload as it is stored when it is on a node and on its way to nowhere."""
    there = moved(workload, node)
    return replace(there, status={key: value for key, value in there.status.items() if key != _STATUS})


def completed(workload: StoredObject, nodes: set[str]) -> StoredObject:
    """Return the workload without a move to a node that is gone: what is left of it is where it came from."""
    return workload if moving_to(workload) in (None, *nodes) else arrived(workload, node_of(workload))


def begin_move(before: Snapshot, name: str, node: str) -> tuple[Snapshot, dict]:
    """Record that a workload (`namespace/name`) is on its way to a node; returns the next snapshot and the move.

    The move has `workload`, `from`, `to` and `pending`: whether there is anything to do. A move that is under way may
    be gone on with, or taken back by naming the node that it started from. Raises MoveRefused.
    """
    workload = _workload(before, name)
    here, pending = node_of(workload), moving_to(workload)
    if is_pending(workload) and pending is None:
        raise MoveRefused(f"workload {name} waits and does not run yet; playbooks/status.yml says for what")
    if workload.spec["kind"] != "vm":
        raise MoveRefused(
            f"workload {name} is a network namespace, and nothing can move that while it runs; name the other node in "
            "its manifest, and playbooks/networks.yml starts it there"
        )
    nodes = {entry.name: entry.spec for entry in before.of_kind("Node")}
    if not nodes.get(node, {}).get("chassis"):
        known = ", ".join(name for name, spec in nodes.items() if spec.get("chassis"))
        raise MoveRefused(f"node {node} is not known as a chassis; these are: {known}")
    if pending not in (None, node) and node != here:
        raise MoveRefused(
            f"workload {name} is on its way from {here} to {pending}: finish that with to={pending}, or take it back "
            f"with to={here}"
        )
    move = {"workload": name, "from": here, "to": pending or node, "pending": pending is not None or node != here}
    if node == here:
        return before, move
    return _with_status(before, workload, {**workload.status, _STATUS: node}), move


def end_move(before: Snapshot, name: str, node: str) -> Snapshot:
    """Record on which of its two nodes a workload runs, now that its move is over. Raises MoveRefused."""
    workload = _workload(before, name)
    if node not in ends(workload):
        raise MoveRefused(f"workload {name} runs on {node_of(workload)} and is not on its way to {node}")
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


# What QEMU says (QMP, `query-status`) of a VM that did not arrive, and of one that left; `absent`: no QEMU runs.
_NOT_ARRIVED, _LEFT = ("absent", "inmigrate"), ("absent", "postmigrate")


def vm_location(move: dict, here: str, there: str) -> dict:
    """Return the `node` where a VM runs, "" when that is not known, and whether it is `lost` at both ends.

    `here` and `there` are its states at `move`'s `from` and `to`; any other word than QEMU's, such as `nothing` of an
    end that did not answer, decides nothing. A lost vm is started anew where its move began.
    """
    lost = there in _NOT_ARRIVED and here in _LEFT
    stayed = move["from"] if here == "running" or lost else ""
    return {"node": move["to"] if there == "running" else stayed, "lost": lost}
