# SPDX-License-Identifier: Apache-2.0
"""Rules for workloads that are virtual machines, which keep their addresses across hosts."""

from __future__ import annotations

from collections.abc import Iterator

from ...store.snapshot import Snapshot, StoredObject
from ..admission.rules import Refusal
from ..network.attachment import moves_live
from ..network.networks import Network
from .move import moving_to
from .placement import node_of


def why_it_waits(workload: StoredObject, networks: list[Network]) -> tuple[str, str] | None:
    """Return reason and message when a virtual machine cannot run on `networks`, those that it would join."""
    if not moves_live(workload):
        return None
    for network in networks:
        if network.topology == "Layer3":
            return (
                "NetworkOnOneNode",
                f"{network.object_key} is a Layer3 network, whose addresses belong to hosts, and a vm moves",
            )
    if not any(network.is_transit_routed for network in networks):
        return "PrimaryNetworkMissing", f"namespace {workload.namespace} has no primary Layer2 network for its vm"
    return None


def check_moving(before: Snapshot, after: Snapshot) -> Iterator[Refusal]:
    """Reject changes to workloads that are being moved."""
    for old in before.of_kind("Workload"):
        new = after.objects.get(old.key)
        if moving_to(old) and new is not None and (old.spec != new.spec or node_of(old) != node_of(new)):
            yield (old.key, "spec", f"cannot change while it moves from {node_of(old)} to {moving_to(old)}",
                   "finish that first with heddle.ovn.migrate_workload")  # fmt: skip
