# SPDX-License-Identifier: Apache-2.0
"""Renders stored objects as an API server would return them."""

from __future__ import annotations

from ..controllers.attachment_definition import FINALIZER, is_own, uid
from ..controllers.networks import NETWORK_KINDS
from ..store.snapshot import Snapshot, StoredObject

_TIMES = ("creationTimestamp", "deletionTimestamp")


def document(entry: StoredObject, deployment: str) -> dict:
    """Return an object's manifest with the server's metadata and the status."""
    metadata = dict(entry.manifest.get("metadata", {}))
    metadata |= {name: entry.status[name] for name in _TIMES if name in entry.status}
    metadata["uid"] = uid(deployment, entry.key)
    if entry.kind in NETWORK_KINDS:
        metadata["finalizers"] = [FINALIZER]
    status = {name: value for name, value in entry.status.items() if name not in _TIMES and not is_own(entry)}
    shown = {name: value for name, value in entry.manifest.items() if name != "status"}
    return {**shown, "metadata": metadata, **({"status": status} if status else {})}


def documents(snapshot: Snapshot) -> dict[str, dict]:
    """Return all objects that have a manifest, by key."""
    return {key: document(entry, snapshot.name) for key, entry in sorted(snapshot.objects.items()) if entry.manifest}
