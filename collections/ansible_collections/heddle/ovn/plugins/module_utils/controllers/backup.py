# SPDX-License-Identifier: Apache-2.0
"""Backup of the state as one document, and its restoration.

The document has the complete content of the database, so that a restored cluster has the same ids, keys
and addresses. It carries the version of its format and a digest of its content.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from dataclasses import asdict, replace

from ..common.files.atomic_file import replace_file
from ..common.serialization import canonical
from ..ovsdb.protocol.client import Conflict
from ..store.database import commit, next_revision, operations, read
from ..store.snapshot import Rows, Snapshot, StoredObject
from .conditions import READY, WAITING_FOR_HOSTS, condition, with_ready
from .node_conditions import NODE_KINDS, without_nodes

KIND = "HeddleStateBackup"
FORMAT = 1
_ONLY_THE_OWNER = 0o600
_CONTENT = {"deployment": str, "revision": int, "settings": dict, "objects": list, "allocations": dict, "cursors": dict}


class BackupError(Exception):
    """A backup cannot be made, stored or restored; the text says why and what to do."""


def backup_of(snapshot: Snapshot) -> dict:
    """Return the backup of a state; BackupError when there is nothing to back up.

    It is JSON-ready: `format`, `digest` (SHA-256 of the content), and the content of the snapshot.
    """
    if not snapshot.revision:
        raise BackupError("the state database holds nothing yet; run heddle.ovn.networks first")
    content = {
        "deployment": snapshot.name,
        "revision": snapshot.revision,
        "settings": snapshot.settings,
        "objects": [asdict(snapshot.objects[key]) for key in sorted(snapshot.objects)],
        "allocations": snapshot.allocations,
        "cursors": snapshot.cursors,
    }
    return {"kind": KIND, "format": FORMAT, **content, "digest": _digest(content)}


def _digest(content: dict) -> str:
    return hashlib.sha256(canonical(content).encode()).hexdigest()


def snapshot_of(document) -> Snapshot:
    """Return the state in a backup; BackupError when it is not one, from a later version, or damaged."""
    if not isinstance(document, dict) or document.get("kind") != KIND:
        raise BackupError(f"this is no backup of the state: its kind is not {KIND}")
    if document.get("format") != FORMAT:
        raise BackupError(f"the backup has format {document.get('format')!r}, this version of Heddle reads {FORMAT}")
    content = {name: document.get(name) for name in _CONTENT}
    wrong = [name for name, kind in _CONTENT.items() if not isinstance(content[name], kind)]
    if wrong or document.get("digest") != _digest(content):
        raise BackupError(
            "the backup was changed or truncated: its digest is not that of its content; take another one"
        )
    try:
        objects = [StoredObject(**entry) for entry in content["objects"]]
    except TypeError as error:
        raise BackupError(f"the backup holds something else than objects: {error}") from error
    return Snapshot(
        revision=content["revision"],
        name=content["deployment"],
        settings=content["settings"],
        objects={entry.key: entry for entry in objects},
        allocations=content["allocations"],
        cursors=content["cursors"],
    )


def restore(
    client, document: dict, *, overwrite: bool, least_revision: int, moment: str, write: bool
) -> tuple[Snapshot, Snapshot]:
    """Restore a backup into the database; return the snapshots before and after.

    `client` may be None: then the database does not exist yet and counts as empty, which only check mode may ask. A
    database that holds something else is refused unless `overwrite`. The revision becomes at least `least_revision`,
    so that hosts which saw later ones take the restored plan. No host has reported on the restored networks, so
    NetworkReady is unknown from `moment` on. What was written is read back and compared. Raises BackupError, and
    nothing is written then.
    """
    wanted = snapshot_of(document)
    before = read(client) if client else Snapshot()
    if _comparable(before) == _comparable(wanted):
        return before, before
    if before.revision and not overwrite:
        raise BackupError(
            f"the state database is not empty: it holds {len(before.objects)} objects of deployment {before.name!r} "
            f"at revision {before.revision}; restore into an empty one, or overwrite it "
            "with -e heddle_restore_overwrite=true"
        )
    if before.revision and before.name != wanted.name:
        raise BackupError(
            f"the backup is of deployment {wanted.name!r}, and the state database of {before.name!r}, whose marks are "
            "on the hosts; restore it into an empty database"
        )
    objects = {key: _unconfirmed(entry, moment) for key, entry in wanted.objects.items()}
    after = replace(wanted, objects=objects, revision=max(wanted.revision, least_revision))
    after.revision = next_revision(before, after)
    if not write:
        return before, after
    try:
        commit(client, operations(before, after))
    except Conflict as error:
        raise BackupError(
            "the state was changed by another client meanwhile, nothing was restored; run it again"
        ) from error
    stored = read(client)
    if stored != after:
        raise BackupError("the state database does not hold what was written to it; see its log on the state host")
    return before, after


def _comparable(snapshot: Snapshot) -> Snapshot:
    """Return the part that two equal states have in common: reports of hosts and revisions are left out."""
    objects = {
        key: entry.with_status(
            conditions=[one for one in entry.status.get("conditions", ()) if one["type"] != READY], hosts=None
        )
        for key, entry in ((key, _without_nodes(entry)) for key, entry in snapshot.objects.items())
    }
    return replace(snapshot, revision=0, rows=Rows(), objects=objects)


def _without_nodes(entry: StoredObject) -> StoredObject:
    return without_nodes(entry) if entry.kind in NODE_KINDS else entry


def _unconfirmed(entry: StoredObject, moment: str) -> StoredObject:
    return with_ready(entry, WAITING_FOR_HOSTS, None, moment) if condition(entry, READY) else _without_nodes(entry)


def keep_backup(document: dict, path: str, *, write: bool) -> bool:
    """Write the backup to a file that only its owner can read; return whether the file or its mode had to change."""
    snapshot_of(document)
    text = json.dumps(document, indent=1, sort_keys=True) + "\n"
    try:
        with open(path, encoding="utf-8") as file:
            if file.read() == text and stat.S_IMODE(os.fstat(file.fileno()).st_mode) == _ONLY_THE_OWNER:
                return False
    except (FileNotFoundError, UnicodeDecodeError):
        pass
    if write:
        os.makedirs(os.path.dirname(os.path.abspath(path)), mode=0o700, exist_ok=True)
        replace_file(path, text, mode=_ONLY_THE_OWNER)
    return True


def read_backup(path: str) -> dict:
    """Return the document of a file, not yet examined; BackupError when there is none."""
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError) as error:
        raise BackupError(f"no backup in {path}: {error}") from error
