# SPDX-License-Identifier: Apache-2.0
"""Renders stored objects as an API server would return them."""

from __future__ import annotations

from ..controllers.coil.membership import BLOCK, POOL, REQUEST
from ..controllers.kind_names import NETWORK_KINDS
from ..controllers.network.attachment_definition import FINALIZER, is_own, uid
from ..store.snapshot import Snapshot, StoredObject

_COIL = "coil.cybozu.com"
_TIMES = ("creationTimestamp", "deletionTimestamp")


def document(entry: StoredObject, deployment: str) -> dict:
    """Return an object's manifest with the server's metadata and the status."""
    if not entry.manifest:
        return _made_by_heddle(entry, deployment)
    metadata = dict(entry.manifest.get("metadata", {}))
    metadata |= {name: entry.status[name] for name in _TIMES if name in entry.status}
    metadata["uid"] = uid(deployment, entry.key)
    if entry.kind in NETWORK_KINDS:
        metadata["finalizers"] = [FINALIZER]
    elif entry.kind == POOL:
        metadata["finalizers"] = [_COIL]
    status = {name: value for name, value in entry.status.items() if name not in _TIMES and not is_own(entry)}
    shown = {name: value for name, value in entry.manifest.items() if name != "status"}
    return {**shown, "metadata": metadata, **({"status": status} if status else {})}


def _made_by_heddle(entry: StoredObject, deployment: str) -> dict:
    """Return a block or a request of an address pool (Coil v2, "Custom Resource Definitions")."""
    metadata = {"name": entry.name, "uid": uid(deployment, entry.key)}
    metadata["creationTimestamp"] = entry.status["creationTimestamp"]
    head = {"apiVersion": f"{_COIL}/v2", "kind": entry.kind, "metadata": metadata}
    if entry.kind == REQUEST:
        status = {name: value for name, value in entry.status.items() if name not in _TIMES}
        return {**head, "spec": entry.spec, "status": status}
    pool = entry.spec["pool"]
    owner = {"apiVersion": f"{_COIL}/v2", "kind": POOL, "name": pool, "uid": uid(deployment, f"{POOL}/{pool}")}
    metadata["labels"], metadata["finalizers"] = entry.labels, [_COIL]
    metadata["ownerReferences"] = [{**owner, "controller": True, "blockOwnerDeletion": True}]
    return {**head, **{name: entry.spec[name] for name in ("index", "ipv4", "ipv6") if name in entry.spec}}


def documents(snapshot: Snapshot) -> dict[str, dict]:
    """Return all objects that have a manifest, and what Heddle makes of address pools, by key."""
    return {
        key: document(entry, snapshot.name)
        for key, entry in sorted(snapshot.objects.items())
        if entry.manifest or entry.kind in (BLOCK, REQUEST)
    }
