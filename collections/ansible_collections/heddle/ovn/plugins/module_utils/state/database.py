# SPDX-License-Identifier: Apache-2.0
"""Snapshots in and out of the `Heddle` database.

A snapshot is written by one transaction that waits for the revision that was read: of two operators who write at
once the second one is refused, reads again and decides anew.
"""

from __future__ import annotations

import json

from ..document import canonical
from ..naming import DEFAULT_NETWORK
from .snapshot import Snapshot, StoredObject

DATABASE = "Heddle"
_OBJECT_COLUMNS = ["kind", "namespace", "name", "manifest_set", "labels", "spec", "manifest", "status"]


def read(client) -> Snapshot:
    """Return what the database holds, all of one moment."""
    cluster, objects, allocations, cursors = client.transact(
        DATABASE,
        [
            {"op": "select", "table": "Cluster", "where": [], "columns": ["name", "revision", "settings"]},
            {"op": "select", "table": "Object", "where": [], "columns": _OBJECT_COLUMNS},
            {"op": "select", "table": "Allocation", "where": [], "columns": ["pool", "owner", "value"]},
            {"op": "select", "table": "Cursor", "where": [], "columns": ["pool", "position"]},
        ],
    )
    snapshot = Snapshot()
    for row in cluster["rows"]:
        snapshot.name, snapshot.revision = row["name"], row["revision"]
        snapshot.settings = json.loads(row["settings"])
    for row in objects["rows"]:
        entry = _stored_object(row)
        snapshot.objects[entry.key] = entry
    for row in allocations["rows"]:
        snapshot.allocations.setdefault(row["pool"], {})[row["owner"]] = row["value"]
    snapshot.cursors = {row["pool"]: row["position"] for row in cursors["rows"]}
    return snapshot


def _stored_object(row: dict) -> StoredObject:
    return StoredObject(
        kind=row["kind"],
        name=row["name"],
        namespace=row["namespace"],
        manifest_set=row["manifest_set"],
        labels=dict(row["labels"][1]),
        spec=json.loads(row["spec"]),
        manifest=json.loads(row["manifest"]),
        status=json.loads(row["status"]),
    )


def _row(entry: StoredObject) -> dict:
    return {
        "kind": entry.kind,
        "namespace": entry.namespace,
        "name": entry.name,
        "manifest_set": entry.manifest_set,
        "labels": ["map", sorted(map(list, entry.labels.items()))],
        "spec": canonical(entry.spec),
        "manifest": canonical(entry.manifest),
        "status": canonical(entry.status),
    }


def operations(before: Snapshot, after: Snapshot) -> list[dict]:
    """Return the transaction that turns one snapshot into the other; empty when they are equal."""
    changes = (
        _object_operations(before, after) + _allocation_operations(before, after) + _cursor_operations(before, after)
    )
    settings_differ = (before.settings, before.name) != (after.settings, after.name)
    if not changes and not settings_differ:
        return []
    row = {"name": after.name, "revision": before.revision + 1, "settings": canonical(after.settings)}
    if before.revision == 0:
        guard = {
            "op": "wait",
            "table": "Cluster",
            "where": [],
            "columns": ["revision"],
            "until": "==",
            "rows": [],
            "timeout": 0,
        }
        return [guard, {"op": "insert", "table": "Cluster", "row": row}, *changes]
    guard = {
        "op": "wait", "table": "Cluster", "where": [], "columns": ["revision"], "until": "==",
        "rows": [{"revision": before.revision}], "timeout": 0,
    }  # fmt: skip
    return [guard, {"op": "update", "table": "Cluster", "where": [], "row": row}, *changes]


def _object_operations(before: Snapshot, after: Snapshot) -> list[dict]:
    def where(entry: StoredObject) -> list:
        return [["kind", "==", entry.kind], ["namespace", "==", entry.namespace], ["name", "==", entry.name]]

    found = []
    for key, entry in before.objects.items():
        if key not in after.objects:
            found.append({"op": "delete", "table": "Object", "where": where(entry)})
    for key, entry in after.objects.items():
        old = before.objects.get(key)
        if old is None:
            found.append({"op": "insert", "table": "Object", "row": _row(entry)})
        elif old != entry:
            found.append({"op": "update", "table": "Object", "where": where(entry), "row": _row(entry)})
    return found


def _allocation_operations(before: Snapshot, after: Snapshot) -> list[dict]:
    """Deletions come first, so that a value may change hands within one transaction."""
    gone, new = [], []
    for pool in sorted(set(before.allocations) | set(after.allocations)):
        old, fresh = before.allocations.get(pool, {}), after.allocations.get(pool, {})
        for owner, value in old.items():
            if fresh.get(owner) != value:
                where = [["pool", "==", pool], ["owner", "==", owner]]
                gone.append({"op": "delete", "table": "Allocation", "where": where})
        for owner, value in fresh.items():
            if old.get(owner) != value:
                row = {"pool": pool, "owner": owner, "value": value}
                new.append({"op": "insert", "table": "Allocation", "row": row})
    return gone + new


def _cursor_operations(before: Snapshot, after: Snapshot) -> list[dict]:
    found = []
    for pool in sorted(set(before.cursors) | set(after.cursors)):
        old, fresh = before.cursors.get(pool), after.cursors.get(pool)
        where = [["pool", "==", pool]]
        if fresh is None:
            found.append({"op": "delete", "table": "Cursor", "where": where})
        elif old is None:
            found.append({"op": "insert", "table": "Cursor", "row": {"pool": pool, "position": fresh}})
        elif old != fresh:
            found.append({"op": "update", "table": "Cursor", "where": where, "row": {"position": fresh}})
    return found


def differences(before: Snapshot, after: Snapshot) -> list[dict]:
    """Return what differs, for people: one entry per object or allocation with `kind`, `name`, `before`, `after`."""
    found = []
    for key in sorted(set(before.objects) | set(after.objects)):
        old, new = before.objects.get(key), after.objects.get(key)
        if old != new:
            found.append({"kind": "object", "name": key, "before": _shown(old), "after": _shown(new)})
    for pool in sorted(set(before.allocations) | set(after.allocations)):
        old, new = before.allocations.get(pool, {}), after.allocations.get(pool, {})
        for owner in sorted(set(old) | set(new)):
            if old.get(owner) != new.get(owner):
                found.append(
                    {"kind": "allocation", "name": f"{pool} {owner}", "before": old.get(owner), "after": new.get(owner)}
                )
    if before.settings != after.settings:
        found.append({"kind": "settings", "name": DEFAULT_NETWORK, "before": before.settings, "after": after.settings})
    return found


def _shown(entry: StoredObject | None) -> dict | None:
    return None if entry is None else {"labels": entry.labels, "spec": entry.spec}
