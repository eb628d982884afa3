# SPDX-License-Identifier: Apache-2.0
"""The state as plain data: the content of the database at one revision.

Admission and allocation turn one snapshot into the next; only `database.py` knows how it is stored.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from functools import cached_property


@dataclass(frozen=True)
class StoredObject:
    """An admitted manifest. `spec` is normalised, `manifest` is the user's document.

    `status` is written by Heddle: `conditions`, fields of the kind, `creationTimestamp` and, after a deletion
    request, `deletionTimestamp`.
    """

    kind: str
    name: str
    namespace: str = ""
    manifest_set: str = ""
    labels: dict = field(default_factory=dict)
    spec: dict = field(default_factory=dict)
    manifest: dict = field(default_factory=dict)
    status: dict = field(default_factory=dict)

    @cached_property
    def key(self) -> str:
        """Return `Kind/namespace/name`, or `Kind/name` for what has no namespace."""
        return "/".join(part for part in (self.kind, self.namespace, self.name) if part)

    @property
    def is_deleting(self) -> bool:
        """Return whether the object is being deleted and waits for its last user."""
        return "deletionTimestamp" in self.status

    def with_status(self, **changes) -> StoredObject:
        """Return the object with these fields changed in its status; None removes a field."""
        status = {name: value for name, value in {**self.status, **changes}.items() if value is not None}
        return self if status == self.status else dataclasses.replace(self, status=status)


class Rows(dict):
    """Origin of the data: (table, key) -> (uuid, version) of the row. Immutable, so copies refer to the same object."""

    def __deepcopy__(self, _memo: dict) -> Rows:
        return self


@dataclass
class Snapshot:
    """The complete content of the state database.

    `allocations` maps pool -> owner -> value, all text. `cursors` maps pool -> the round-robin position. `rows` is
    not compared: equal snapshots may come from different databases.
    """

    revision: int = 0
    name: str = ""
    settings: dict = field(default_factory=dict)
    objects: dict[str, StoredObject] = field(default_factory=dict)
    allocations: dict[str, dict[str, str]] = field(default_factory=dict)
    cursors: dict[str, int] = field(default_factory=dict)
    rows: Rows = field(default_factory=Rows, compare=False, repr=False)

    def of_kind(self, *kinds: str) -> list[StoredObject]:
        """Return the objects of the given kinds, ordered by key."""
        prefixes = tuple(f"{kind}/" for kind in kinds)
        objects = self.objects
        # The text of the keys is compared, which takes half the time of looking at the objects.
        return [objects[key] for key in sorted([key for key in objects if key.startswith(prefixes)])]

    def get(self, pool: str, owner: str) -> str | None:
        """Return the value that an owner has of a pool, None without one."""
        return self.allocations.get(pool, {}).get(owner)
