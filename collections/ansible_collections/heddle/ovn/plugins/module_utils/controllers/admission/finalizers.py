# SPDX-License-Identifier: Apache-2.0
"""Finalizers: which deleted objects are removed and which wait for their users.

As in ovn-kubernetes an attachment definition stays while a workload is attached to it, and a network while it has a
definition; as in Kubernetes a namespace stays while it has content. A waiting object carries the time of its deletion
request and stays in effect until it is removed; each run removes what is free, in this order.
"""

from __future__ import annotations

from ...common.naming import definition_of, nad_key
from ...store.snapshot import Snapshot, StoredObject
from ..kind_names import NETWORK_KINDS
from ..network.attachment import selection
from ..network.attachment_definition import own_definitions
from ..network.networks import DEFINITION_KIND, wanted_networks


def asked_to_go(entry: StoredObject, now: str) -> StoredObject:
    """Return the object with the time at which its deletion was first asked for."""
    return entry if entry.is_deleting else entry.with_status(deletionTimestamp=now)


def has_finalizer(entry: StoredObject) -> bool:
    """Return whether an object may have to wait for others before it is removed."""
    return entry.kind in (*NETWORK_KINDS, "Namespace", "AddressPool")


def users(before: Snapshot, after: Snapshot) -> dict[str, list[str]]:
    """Return by definition (`namespace/name`) the workloads that are attached to it and stay so.

    A workload that does not select a secondary network any more is detached from it in this run.
    """
    found: dict[str, list[str]] = {}
    for workload in after.of_kind("Workload"):
        stored = before.objects.get(workload.key)
        attached = (stored.status.get("attachments") or ()) if stored else ()
        selected = {definition for definition, _requested in selection(workload)}
        for definition in dict.fromkeys(map(definition_of, attached)):
            if definition in selected or not _is_secondary(before, definition):
                found.setdefault(definition, []).append(f"{workload.namespace}/{workload.name}")
    return found


def _is_secondary(snapshot: Snapshot, definition: str) -> bool:
    entry = snapshot.objects.get(f"{DEFINITION_KIND}/{definition}")
    owner = snapshot.objects.get(entry.spec.get("owner", "")) if entry else None
    return owner is not None and owner.spec["role"] == "Secondary"


def held_networks(snapshot: Snapshot, using: dict[str, list[str]]) -> set[str]:
    """Return the keys of the networks that workloads still use."""
    definitions = own_definitions(snapshot)
    return {one.spec["owner"] for one in definitions if using.get(nad_key(one.namespace, one.name))}


def contents(snapshot: Snapshot, namespace: str) -> list[str]:
    """Return the keys of what is in a namespace."""
    return sorted(entry.key for entry in snapshot.objects.values() if entry.namespace == namespace)


def release(snapshot: Snapshot, using: dict[str, list[str]], now: str) -> None:
    """Remove what has no users left: definitions, then networks, then namespaces.

    A definition is removed with its network or namespace, or when the network no longer selects the namespace.
    """
    selected = {
        (network.object_key, namespace)
        for network in wanted_networks(snapshot).values()
        for namespace in network.namespaces
    }
    held = set()
    for definition in own_definitions(snapshot):
        owner = definition.spec["owner"]
        if definition.is_deleting or (owner, definition.namespace) not in selected:
            if not using.get(nad_key(definition.namespace, definition.name)):
                del snapshot.objects[definition.key]
                continue
            snapshot.objects[definition.key] = asked_to_go(definition, now)
        held.add(owner)
    for entry in snapshot.of_kind(*NETWORK_KINDS):
        if entry.is_deleting and entry.key not in held:
            del snapshot.objects[entry.key]
    filled = {entry.namespace for entry in snapshot.objects.values()}
    for entry in snapshot.of_kind("Namespace"):
        if entry.is_deleting and entry.name not in filled:
            del snapshot.objects[entry.key]


def why_it_stays(definition: StoredObject, using: dict[str, list[str]]) -> str:
    """Return the status message for a definition that cannot be removed yet."""
    name = nad_key(definition.namespace, definition.name)
    return (
        f"failed to delete NetworkAttachmentDefinition [{name}]: "
        f"network in use by the following pods: [{', '.join(using.get(name, ()))}]"
    )
