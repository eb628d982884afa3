# SPDX-License-Identifier: Apache-2.0
"""The namespace `default`, which exists without a manifest, as in Kubernetes.

It is stored while something is in it, so that it changes nothing elsewhere: selectors of all namespaces select it, too.
A manifest of it replaces it, and when that is left out, it is as without one again.
"""

from __future__ import annotations

from ...common.naming import PRIMARY_NETWORK_LABEL, nad_key
from ...store.snapshot import Snapshot, StoredObject
from ..kind_names import NETWORK_KINDS
from ..network.attachment_definition import is_own
from ..network.networks import NAMESPACE_NAME_LABEL
from .finalizers import asked_to_go, held_networks

_NAME = "default"
_KEY = f"Namespace/{_NAME}"
_MANIFEST = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAME}}


def is_implicit(entry: StoredObject) -> bool:
    """Return whether an object is the namespace `default` without a manifest of a user."""
    # A manifest set may have an empty name.
    return entry.key == _KEY and not entry.manifest_set and entry.manifest == _MANIFEST


def add_default_namespace(after: Snapshot, now: str) -> None:
    """Add the namespace `default` where something is in it and no manifest is.

    One with the label of primary networks, which may not be taken off, is deleted like any other with its manifest.
    """
    stored = after.objects.get(_KEY)
    if stored and not is_implicit(stored) and (not stored.is_deleting or PRIMARY_NETWORK_LABEL in stored.labels):
        return
    if any(entry.namespace == _NAME and not is_own(entry) for entry in after.objects.values()):
        after.objects[_KEY] = _implicit(stored, now)


def leave_default_namespace(after: Snapshot, using: dict[str, list[str]], now: str) -> None:
    """Ask the namespace `default` without a manifest to go when nothing stays in it.

    `using` are the workloads of each attachment definition (`finalizers.users`). Networks that are deleted and that no
    workload uses go in this run, too, so that the next one finds nothing to change.
    """
    stored = after.objects.get(_KEY)
    if not stored or not is_implicit(stored):
        return
    held = held_networks(after, using)
    for entry in after.objects.values():
        if entry.namespace != _NAME:
            continue
        if is_own(entry):
            stays = bool(using.get(nad_key(entry.namespace, entry.name)))
        else:
            stays = entry.kind not in NETWORK_KINDS or not entry.is_deleting or entry.key in held
        if stays:
            return
    after.objects[_KEY] = asked_to_go(stored, now)


def _implicit(stored: StoredObject | None, now: str) -> StoredObject:
    if stored and is_implicit(stored):
        return stored
    status = {**stored.status, "deletionTimestamp": None, "conditions": None} if stored else {"creationTimestamp": now}
    found = StoredObject("Namespace", _NAME, labels={NAMESPACE_NAME_LABEL: _NAME}, manifest=_MANIFEST)
    return found.with_status(**status)
