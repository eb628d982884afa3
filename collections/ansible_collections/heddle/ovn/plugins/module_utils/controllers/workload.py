# SPDX-License-Identifier: Apache-2.0
"""Decides which workloads run and why others wait.

The rules of the namespace label (OKEP-5193): without it a workload uses the default network; with it the workload
waits until its namespace has a primary network, and never falls back to the default one.
"""

from __future__ import annotations

from ..common.naming import PRIMARY_NETWORK_LABEL, nad_key
from ..store.snapshot import Snapshot, StoredObject
from .attachment import moves_live
from .attachment_definition import definition_key
from .conditions import FALSE, TRUE, WORKLOAD_READY, described, with_conditions
from .networks import Network, networks_by_namespace
from .placement import node_of
from .vm_placement import why_it_waits


def update_workloads(
    snapshot: Snapshot,
    before: Snapshot,
    found: dict[str, Network],
    failed: dict[str, str],
    unserved: set[tuple[str, str]],
    now: str,
) -> None:
    """Set each workload's status: whether it runs, and on which attachments.

    `found` are the networks that can exist, `failed` the error by workload, `unserved` the (network,
    node) pairs where a network is missing.
    """
    serving = networks_by_namespace(found)
    for workload in snapshot.of_kind("Workload"):
        stored = before.objects.get(workload.key)
        attached = set(stored.status.get("attachments") or ()) if stored else set()
        networks = serving.get(workload.namespace, [])
        if workload.key in failed:
            waits = ("AllocationFailed", failed[workload.key])
        else:
            waits = _waits(snapshot, workload, networks, attached, unserved)
        attachments = None if waits else sorted(nad_key(workload.namespace, network.nad_name) for network in networks)
        reason, message = waits or ("Attached", _running(workload, networks))
        status = FALSE if waits else TRUE
        # The timestamp follows from the stored object, since this may be the second attempt of one run.
        known = workload.with_status(conditions=stored.status.get("conditions") if stored else None)
        changed = with_conditions(known, [described(WORKLOAD_READY, status, reason, message)], now)
        snapshot.objects[workload.key] = changed.with_status(attachments=attachments)


def _running(workload: StoredObject, networks: list[Network]) -> str:
    names = [*([] if moves_live(workload) else ["default"]), *(network.name for network in networks)]
    return f"attached to: {', '.join(names)}"


def _waits(
    snapshot: Snapshot,
    workload: StoredObject,
    networks: list[Network],
    attached: set[str],
    unserved: set[tuple[str, str]],
) -> tuple[str, str] | None:
    """Return reason and message, or None for a workload that can run."""
    name, node = workload.namespace, node_of(workload)
    namespace = snapshot.objects[f"Namespace/{name}"]
    for network in networks:
        definition = snapshot.objects[definition_key(name, network.nad_name)]
        if definition.is_deleting and nad_key(name, network.nad_name) not in attached:
            return "NetworkDeleting", f"{network.object_key} is being deleted, and takes no new workload in {name}"
        if (network.name, node) in unserved:
            return "NetworkNotOnNode", f"{network.object_key} got no subnets for node {node}"
    if PRIMARY_NETWORK_LABEL in namespace.labels and not any(network.role == "Primary" for network in networks):
        return (
            "PrimaryNetworkMissing",
            f"namespace {name} is labelled for a primary network and has none that can be used",
        )
    return why_it_waits(workload, networks)
