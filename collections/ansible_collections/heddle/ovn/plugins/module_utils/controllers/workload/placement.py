# SPDX-License-Identifier: Apache-2.0
"""Placement of workloads: the node of the manifest, or the one that it was moved to.

A move is stored in the status of the object, beside the node that the manifest named then. So applying the same
manifests again does not move the workload back, and naming another node in the manifest overrides the move.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Set

from ...store.snapshot import StoredObject

_STATUS = "placement"


def node_of(workload: StoredObject) -> str:
    """Return the node that a workload is to run on: that of its manifest, or where it was moved to since."""
    placement = workload.status.get(_STATUS)
    if placement and placement["instead_of"] == workload.spec["node"]:
        return placement["node"]
    return workload.spec["node"]


def moved(workload: StoredObject, node: str) -> StoredObject:
    """Return the workload as it is stored after a move to `node`; its manifest stays."""
    status = {name: value for name, value in workload.status.items() if name != _STATUS}
    if node != workload.spec["node"]:
        status[_STATUS] = {"node": node, "instead_of": workload.spec["node"]}
    return dataclasses.replace(workload, status=status)


def scheduled(workload: StoredObject, nodes: Set[str]) -> StoredObject:
    """Return the workload without a move that was overridden, or whose target node was removed."""
    if _STATUS in workload.status and (node_of(workload) not in nodes or node_of(workload) == workload.spec["node"]):
        return moved(workload, workload.spec["node"])
    return workload
