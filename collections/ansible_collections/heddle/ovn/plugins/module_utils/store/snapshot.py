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


class Objects(dict):
    """Objects by key, with the keys of each kind in order.

    Admission asks for the objects of a kind some hundred times; in a fleet, to find and sort them takes longer than
    most of what is done with them. Keys are looked for again when one of their kind is added or removed.
    """

    def __init__(self, *arguments) -> None:
        super().__init__(*arguments)
        self._ordered: dict[str, list[str]] = {}

    def of_kind(self, kind: str) -> list[StoredObject]:
        """Return the objects of a kind, ordered by key."""
        keys = self._ordered.get(kind)
        if keys is None:
            prefix = f"{kind}/"
            keys = self._ordered[kind] = sorted([key for key in self if key.startswith(prefix)])
        return [self[key] for key in keys]

    def _forget(self, key: str) -> None:
        self._ordered.pop(key.partition("/")[0], None)

    def __setitem__(self, key: str, entry: StoredObject) -> None:
        if key not in self:
            self._forget(key)
        super().__setitem__(key, entry)

    def __delitem__(self, key: str) -> None:
        self._forget(key)
        super().__delitem__(key)

    def __ior__(self, others):
        self.update(others)
        return self

    def update(self, others) -> None:
        """Add or replace objects."""
        for key, entry in dict(others).items():
            self[key] = entry

    def pop(self, key: str, *default):
        """Remove an object and return it."""
        self._forget(key)
        return super().pop(key, *default)

    def setdefault(self, key: str, entry: StoredObject) -> StoredObject:
        """Return the object of that key; that one is added when there is none."""
        if key not in self:
            self[key] = entry
        return self[key]

    def popitem(self):
        """Remove the last object and return its key and itself."""
        key, entry = super().popitem()
        self._forget(key)
        return key, entry

    def clear(self) -> None:
        """Remove all objects."""
        self._ordered.clear()
        super().clear()


class Rows(dict):
    """Origin of the data: (table, key) -> (uuid, version) of the row. Immutable, so copies refer to the same object."""

    def __deepcopy__(self, _memo: dict) -> Rows:
        return self


@dataclass
class Snapshot:
    """The complete content of the state database.

    `objects` has the objects by key. `allocations` maps pool -> owner -> value, all text; a pool is replaced as a whole
    and never changed. `cursors` maps pool -> the round-robin position. `rows` is not compared: equal snapshots may come
    from different databases.
    """

    revision: int = 0
    name: str = ""
    settings: dict = field(default_factory=dict)
    objects: Objects = field(default_factory=Objects)
    allocations: dict[str, dict[str, str]] = field(default_factory=dict)
    cursors: dict[str, int] = field(default_factory=dict)
    rows: Rows = field(default_factory=Rows, compare=False, repr=False)

    def __setattr__(self, name: str, value) -> None:
        """Keep objects that are given as a plain mapping as `Objects`."""
        is_plain = name == "objects" and not isinstance(value, Objects)
        super().__setattr__(name, Objects(value) if is_plain else value)

    def of_kind(self, *kinds: str) -> list[StoredObject]:
        """Return the objects of the given kinds, ordered by key."""
        return [entry for kind in sorted(kinds) for entry in self.objects.of_kind(kind)]

    def get(self, pool: str, owner: str) -> str | None:
        """Return the value that an owner has of a pool, None without one."""
        return self.allocations.get(pool, {}).get(owner)
