# SPDX-License-Identifier: Apache-2.0
"""Compares one desired row with the current one. No I/O, no order, no transactions."""

from __future__ import annotations

from collections.abc import Mapping

from .identity import MARK_KEYS
from .protocol.schema import MARKS
from .values import Keys, Ref, all_uuids, map_pairs, map_wire, uuids

NOTHING: frozenset = frozenset()
# Stands for a current row that equals the desired one and has no references.
UNCHANGED: dict = {}


class RowDiff:
    """The differences. `columns`: name -> (old, new) wire values; `keys`: name -> (old map, put, drop);
    `members`: name -> (added uuids, removed uuids)."""

    __slots__ = ("columns", "keys", "members")

    def __init__(self, columns, keys, members):
        self.columns, self.keys, self.members = columns, keys, members


def forget_equal(groups, rows, referring):
    """Put `UNCHANGED` in place of rows (by uuid) that equal the desired ones, while they are in the processor's cache.

    `groups`: (shape, desired rows) of the table; `referring`: columns that were read and may refer to rows. A row with
    a value in one of these is kept, because later steps examine it.
    """
    empty = [["set", []]] * len(referring)
    for shape, group in groups:
        if group[0].values is None or not referring.isdisjoint(shape.names):
            continue
        read = shape.read
        for wanted in group:
            row = rows.get(wanted.uuid)
            if (
                row is not None
                and read(row) == wanted.values
                and not wanted.keys
                and not wanted.members
                and (not empty or [row[name] for name in referring] == empty)
            ):
                rows[wanted.uuid], wanted.values = UNCHANGED, None


def compare(wanted, current):
    """The `RowDiff` of an existing row, or None when it equals the desired one. `current` has the owned members."""
    row = wanted.current
    columns = keys = members = None
    if wanted.values is None or wanted.shape.read(row) != wanted.values:
        columns = {name: (row[name], wire) for name, wire in wanted.whole.items() if row[name] != wire}
    for name in wanted.keys:
        difference = _compare_keys(wanted, name)
        if difference:
            keys = keys or {}
            keys[name] = difference
    for name in current.member_columns[wanted.row.table]:
        wish = wanted.members.get(name, NOTHING)
        have = uuids(row[name])
        if have == wish:
            continue
        column = wanted.table.columns[name]
        if name not in wanted.members and not column.strong:
            continue
        gone = {uuid for uuid in have - wish if any(current.owns(table, uuid) for table in column.refers)}
        if gone or not wish <= have:
            members = members or {}
            members[name] = wish - have, gone
    if columns or keys or members:
        return RowDiff(columns or {}, keys or {}, members or {})
    return None


def _compare_keys(wanted, name):
    keys = wanted.keys[name]
    have = map_pairs(wanted.current[name])
    if wanted.adopted and name == MARKS:
        keys = {key: value for key, value in keys.items() if key not in MARK_KEYS}
    put = {key: value for key, value in keys.items() if value is not None and have.get(key) != value}
    drop = [key for key, value in keys.items() if value is None and key in have]
    if wanted.match is None and not isinstance(wanted.row.columns.get(name), Keys) and name in wanted.row.columns:
        patterns = wanted.table.columns[name].volatile
        drop += [key for key in have if key not in keys and not _volatile(key, patterns)]
    return (have, put, sorted(drop)) if put or drop else None


def _volatile(key, patterns):
    return any(key == pattern or (pattern[-1] == "*" and key.startswith(pattern[:-1])) for pattern in patterns)


def birth_row(wanted, later=NOTHING):
    """The wire row to insert, without the members in `later`."""
    row = dict(wanted.whole)
    if wanted.match:
        row = {**wanted.match, **row}
    for name, keys in wanted.keys.items():
        row[name] = map_wire({key: value for key, value in keys.items() if value is not None})
    for name, members in wanted.members.items():
        row[name] = ["set", [["uuid", uuid] for uuid in sorted(members - later)]]
    return row


def described(value):
    """A column value as in the desired row, for a diff: references by name."""
    if isinstance(value, (str, int, float)) or (
        isinstance(value, dict) and not any(isinstance(item, Ref) for item in value.values())
    ):
        return value
    if isinstance(value, Ref):
        return f"{value.table}/{value.key}"
    if isinstance(value, Keys):
        return value.values
    if isinstance(value, (set, frozenset)):
        return sorted(map(described, value), key=str)
    if isinstance(value, (list, tuple)):
        return list(map(described, value))
    if isinstance(value, Mapping):
        return {key: described(item) for key, item in value.items()}
    return value


class Described(Mapping):
    """Column values as `described`, computed when they are read: only a diff does, and creations have many."""

    __slots__ = ("_columns",)

    def __init__(self, columns):
        self._columns = columns

    def __getitem__(self, name):
        return described(self._columns[name])

    def __iter__(self):
        return iter(self._columns)

    def __len__(self):
        return len(self._columns)

    def __repr__(self):
        return repr(dict(self))


def held_uuids(table, row, names, strong=True):
    """uuids that those columns of a row refer to; with `strong`, only references that keep a row alive."""
    found = set()
    for name in names:
        column = table.columns.get(name)
        if column is not None and column.refers and (column.strong or not strong) and name in row:
            found |= all_uuids(row[name])
    return found
