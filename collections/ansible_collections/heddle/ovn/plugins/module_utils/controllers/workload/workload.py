# SPDX-License-Identifier: Apache-2.0
"""Decides which workloads run and why others wait.

The rules of the namespace label (OKEP-5193): without it a workload uses the default network; with it the workload
waits until its namespace has a primary network, and never falls back to the default one.
"""

from __future__ import annotations

from ...common.naming import PRIMARY_NETWORK_LABEL, definition_of
from ...store.snapshot import Snapshot, StoredObject
from ..coil.egress_clients import why_eth0_is_locked, why_it_lacks_an_egress
from ..coil.membership import pool_of, why_it_lacks_a_pool
from ..conditions import FALSE, TRUE, WORKLOAD_READY, described, timed
from ..network.attachment import Attachment, Attachments
from ..network.network_selection import impossible_selection, unresolved_selection
from ..network.networks import DEFINITION_KIND, Network, is_pending
from .placement import node_of
from .vm_placement import why_it_waits
from .workload_readiness import known_serving


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
    node) pairs where a network is missing. A workload starts when all networks that it selects are there; one that runs
    goes on without those that are not, and is attached to them later.
    """
    attachments = Attachments(found)
    for workload in snapshot.of_kind("Workload"):
        stored = before.objects.get(workload.key)
        is_running = stored is not None and not is_pending(stored)
        attached = set(map(definition_of, stored.status["attachments"] if is_running else ()))
        interfaces = attachments.of(workload)
        if workload.key in failed:
            waits = ("AllocationFailed", failed[workload.key])
        else:
            waits = _waits(snapshot, workload, interfaces, attached, unserved) or why_it_lacks_a_pool(
                snapshot, workload
            )
            waits = waits or impossible_selection(workload, attachments)
            waits = waits or why_eth0_is_locked(workload, interfaces)
        lacks = unresolved_selection(snapshot, workload, attachments) or why_it_lacks_an_egress(snapshot, workload)
        waits = waits or (None if is_running else lacks)
        reason, message = (
            waits or lacks or ("Attached", f"attached to: {', '.join(_joined(snapshot, workload, interfaces))}")
        )
        ready = described(WORKLOAD_READY, FALSE if waits or lacks else TRUE, reason, message)
        names = None if waits else sorted(one.nad for one in interfaces if one.nad)
        serving = None if waits else known_serving(workload, stored if is_running else None)
        # The timestamps follow from the stored object, since this may be the second attempt of one run.
        conditions = timed([ready, *([serving] if serving else [])], stored, now)
        snapshot.objects[workload.key] = workload.with_status(conditions=conditions, attachments=names)


def _joined(snapshot: Snapshot, workload: StoredObject, interfaces: list[Attachment]) -> list[str]:
    pool = pool_of(snapshot.objects[f"Namespace/{workload.namespace}"], snapshot.settings)
    return [*([f"pool {pool}"] if pool else []), *(one.network.name for one in interfaces)]


def _waits(
    snapshot: Snapshot,
    workload: StoredObject,
    interfaces: list[Attachment],
    attached: set[str],
    unserved: set[tuple[str, str]],
) -> tuple[str, str] | None:
    """Return reason and message, or None for a workload that can run on `interfaces`."""
    name, node = workload.namespace, node_of(workload)
    namespace = snapshot.objects[f"Namespace/{name}"]
    networks = [one.network for one in interfaces if not one.network.is_default]
    for one in interfaces:
        definition = definition_of(one.nad) if one.nad else ""
        if (
            definition
            and snapshot.objects[f"{DEFINITION_KIND}/{definition}"].is_deleting
            and definition not in attached
        ):
            return "NetworkDeleting", f"{one.network.object_key} is being deleted, and takes no new workload in {name}"
        if (one.network.name, node) in unserved:
            return "NetworkNotOnNode", f"{one.network.object_key} got no subnets for node {node}"
    if PRIMARY_NETWORK_LABEL in namespace.labels and not any(network.role == "Primary" for network in networks):
        return (
            "PrimaryNetworkMissing",
            f"namespace {name} is labelled for a primary network and has none that can be used",
        )
    return why_it_waits(workload, networks)
