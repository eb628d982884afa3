# SPDX-License-Identifier: Apache-2.0
"""Reads and writes snapshots of the `Heddle` database.

A snapshot is written by one transaction that waits for the revision that was read: of two concurrent writers the second
is rejected, reads again and decides anew. Rows are addressed by uuid, which the server finds by index; by
content it would scan the whole table for each of them.

A pool of allocations is one row: a fleet has millions of values, since each Layer3 network has a subnet for each host.
Up to schema version 1.0.0 each value was a row of `Allocation`; such a state is read, and the first transaction that
writes moves it. A release of that time would find no allocation then and make all of them anew, so from then on the
settings have the number of the format before them, which that release cannot read.
"""

from __future__ import annotations

import json

from ..common.databases import HEDDLE
from ..common.errors import EngineError
from ..common.naming import DEFAULT_NETWORK
from ..common.serialization import canonical
from ..ovsdb.values import map_pairs
from .snapshot import Rows, Snapshot, StoredObject

_IDENTITY = ["_uuid", "_version"]
_COLUMNS = {
    "Cluster": ["name", "revision", "settings"],
    "Object": ["kind", "namespace", "name", "manifest_set", "labels", "spec", "manifest", "status"],
    "Pool": ["name", "held"],
    "Allocation": ["pool", "owner", "value"],
    "Cursor": ["pool", "position"],
}
_FORMAT = "format 2: "


class SchemaTooOld(EngineError):
    """The database has the schema of an earlier release; the text has the remedy."""


class DuplicateValue(EngineError):
    """Two owners would have one value of a pool: the decision was wrong, and nothing is written."""


def read(client) -> Snapshot:
    """Return the content of the database at one revision, also of one with the schema of an earlier release."""
    known_tables = _COLUMNS.keys() - _missing(client.get_schema(HEDDLE))
    selects = {
        table: {"op": "select", "table": table, "where": [], "columns": _IDENTITY + columns}
        for table, columns in _COLUMNS.items()
        if table in known_tables
    }
    answers = client.transact(HEDDLE, list(selects.values()))
    found = {table: answer["rows"] for table, answer in zip(selects, answers, strict=True)}
    cluster, objects, pools, allocations, cursors = (found.get(table, []) for table in _COLUMNS)
    snapshot, rows = Snapshot(), Rows()
    for row in cluster:
        snapshot.name, snapshot.revision = row["name"], row["revision"]
        snapshot.settings = json.loads(row["settings"].removeprefix(_FORMAT))
        rows["Cluster", ""] = _identity(row)
    for row in objects:
        entry = _stored_object(row)
        snapshot.objects[entry.key] = entry
        rows["Object", entry.key] = _identity(row)
    # Pools are only replaced as a whole, so those with one text, as of networks with the same subnets, are one mapping.
    known: dict[str, dict] = {}
    for row in pools:
        held = row["held"]
        if held not in known:
            known[held] = json.loads(held)
        snapshot.allocations[row["name"]] = known[held]
        rows["Pool", row["name"]] = _identity(row)
    for row in allocations:
        snapshot.allocations.setdefault(row["pool"], {})[row["owner"]] = row["value"]
        rows["Allocation", (row["pool"], row["owner"])] = _identity(row)
    for row in cursors:
        snapshot.cursors[row["pool"]] = row["position"]
        rows["Cursor", row["pool"]] = _identity(row)
    snapshot.rows = rows
    return snapshot


def commit(client, transaction: list[dict]) -> None:
    """Run what `operations` returned. Raises SchemaTooOld, and Conflict when another client has written meanwhile."""
    schema = client.get_schema(HEDDLE)
    if missing := _missing(schema):
        raise SchemaTooOld(
            f"the state database has schema version {schema['version']}, which lacks {', '.join(missing)}: run "
            "heddle.ovn.install, which converts it; a database of your own is converted with "
            "ovsdb-client convert SOCKET roles/state/files/heddle.ovsschema"
        )
    client.transact(HEDDLE, transaction)


def _missing(schema: dict) -> list[str]:
    return sorted(_COLUMNS.keys() - schema["tables"].keys())


def _identity(row: dict) -> tuple[str, str]:
    return row["_uuid"][1], row["_version"][1]


def _stored_object(row: dict) -> StoredObject:
    return StoredObject(
        kind=row["kind"],
        name=row["name"],
        namespace=row["namespace"],
        manifest_set=row["manifest_set"],
        labels=map_pairs(row["labels"]),
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
    """Return the transaction that turns one snapshot into the other; empty when they are equal.

    `before` is as it was read. The revision becomes that of `after` if that is greater, which is a change by itself, or
    else the next one.
    """
    changes = _object_operations(before, after) + _pool_operations(before, after) + _cursor_operations(before, after)
    settings_differ = (before.settings, before.name) != (after.settings, after.name)
    if not changes and not settings_differ and after.revision <= before.revision:
        return []
    changes += _moved_allocations(before, after)
    revision = next_revision(before, after)
    row = {"name": after.name, "revision": revision, "settings": _FORMAT + canonical(after.settings)}
    if before.revision == 0:
        return [_wait("Cluster", [], {"columns": ["revision"], "rows": []}), _insert("Cluster", row), *changes]
    unchanged = {"columns": ["revision"], "rows": [{"revision": before.revision}]}
    return [
        _wait("Cluster", [], unchanged),
        {"op": "update", "table": "Cluster", "where": [], "row": row},
        *changes,
    ]


def next_revision(before: Snapshot, after: Snapshot) -> int:
    """Return the revision that the step from one snapshot to the other leads to."""
    return max(before.revision + 1, after.revision)


def _wait(table: str, where: list, condition: dict) -> dict:
    return {"op": "wait", "table": table, "where": where, "until": "==", "timeout": 0, **condition}


def _insert(table: str, row: dict) -> dict:
    return {"op": "insert", "table": table, "row": row}


def _on_row(before: Snapshot, table: str, key, operation: dict) -> list[dict]:
    """An operation on a row, conditional on the version that was read."""
    uuid, version = before.rows[table, key]
    where = [["_uuid", "==", ["uuid", uuid]]]
    unchanged = {"columns": ["_version"], "rows": [{"_version": ["uuid", version]}]}
    return [_wait(table, where, unchanged), {**operation, "table": table, "where": where}]


def _object_operations(before: Snapshot, after: Snapshot) -> list[dict]:
    found = []
    for key in before.objects:
        if key not in after.objects:
            found += _on_row(before, "Object", key, {"op": "delete"})
    for key, entry in after.objects.items():
        old = before.objects.get(key)
        if old is None:
            found.append(_insert("Object", _row(entry)))
        elif old != entry:
            there = _row(old)
            row = {column: value for column, value in _row(entry).items() if there[column] != value}
            found += _on_row(before, "Object", key, {"op": "update", "row": row})
    return found


def _pool_operations(before: Snapshot, after: Snapshot) -> list[dict]:
    """An empty pool has no row."""
    found = []
    for name in sorted(before.allocations.keys() | after.allocations.keys()):
        old, fresh = before.allocations.get(name, {}), after.allocations.get(name, {})
        if old == fresh:
            continue
        if len(set(fresh.values())) < len(fresh):
            raise DuplicateValue(f"pool {name} would have one value for two owners: {canonical(fresh)}")
        if ("Pool", name) not in before.rows:
            found += _new_pool(name, fresh)
        elif fresh:
            found += _on_row(before, "Pool", name, {"op": "update", "row": {"held": canonical(fresh)}})
        else:
            found += _on_row(before, "Pool", name, {"op": "delete"})
    return found


def _new_pool(name: str, held: dict[str, str]) -> list[dict]:
    return [_insert("Pool", {"name": name, "held": canonical(held)})] if held else []


def _moved_allocations(before: Snapshot, after: Snapshot) -> list[dict]:
    """Return what turns the rows of `Allocation` into pools, besides those that change."""
    found, pools = [], set()
    for table, key in before.rows:
        if table == "Allocation":
            found += _on_row(before, table, key, {"op": "delete"})
            pools.add(key[0])
    for name in sorted(pools):
        if before.allocations[name] == after.allocations.get(name):
            found += _new_pool(name, before.allocations[name])
    return found


def _cursor_operations(before: Snapshot, after: Snapshot) -> list[dict]:
    found = []
    for pool in sorted(set(before.cursors) | set(after.cursors)):
        old, fresh = before.cursors.get(pool), after.cursors.get(pool)
        if fresh is None:
            found += _on_row(before, "Cursor", pool, {"op": "delete"})
        elif old is None:
            found.append(_insert("Cursor", {"pool": pool, "position": fresh}))
        elif old != fresh:
            found += _on_row(before, "Cursor", pool, {"op": "update", "row": {"position": fresh}})
    return found


def differences(before: Snapshot, after: Snapshot) -> list[dict]:
    """Return the differences: one entry per object or allocation with `kind`, `name`, `before`, `after`."""
    found = []
    for key in sorted(set(before.objects) | set(after.objects)):
        old, new = before.objects.get(key), after.objects.get(key)
        if old != new:
            found.append({"kind": "object", "name": key, "before": _shown(old), "after": _shown(new)})
    for pool in sorted(set(before.allocations) | set(after.allocations)):
        old, new = before.allocations.get(pool, {}), after.allocations.get(pool, {})
        for owner in sorted(set(old) | set(new)) if old != new else ():
            if old.get(owner) != new.get(owner):
                found.append(
                    {"kind": "allocation", "name": f"{pool} {owner}", "before": old.get(owner), "after": new.get(owner)}
                )
    if before.settings != after.settings:
        found.append({"kind": "settings", "name": DEFAULT_NETWORK, "before": before.settings, "after": after.settings})
    return found


def _shown(entry: StoredObject | None) -> dict | None:
    if entry is None:
        return None
    return {"labels": entry.labels, "spec": entry.spec, **({"status": entry.status} if entry.status else {})}
