# SPDX-License-Identifier: Apache-2.0
"""Desired rows, checked against the schema and turned into wire values before anything is read or written."""

from __future__ import annotations

from collections.abc import Mapping

from .ovsdb_schema import MARKS, MEMBERS, WHOLE, UnknownName
from .ovsdb_values import BadValue, Keys, Ref, uuids

NO_KEYS: dict = {}


class InvalidRows(ValueError):
    """Desired rows that this database cannot hold, all of them; nothing was written."""

    def __init__(self, database, problems):
        self.problems = problems
        super().__init__("\n".join(f"{database}: {problem}" for problem in problems))


class Wanted:
    """One desired row on the wire.

    `whole`: column -> wire value; `keys`: map column -> key -> wire atom or None; `members`: set column -> uuids;
    `match`: column -> wire value that finds the row. `uuid` is the row's real one once `ovsdb_current` has found the
    row, `current` what the database says of it, `adopted` that somebody else made it.
    """

    __slots__ = ("adopted", "current", "keys", "match", "members", "row", "table", "unit", "uuid", "whole")

    def __init__(self, row, table, uuid):
        self.row, self.table, self.uuid, self.unit = row, table, uuid, row.network
        self.whole, self.keys, self.members, self.match = {}, NO_KEYS, NO_KEYS, None
        self.current, self.adopted = None, False

    @property
    def label(self):
        """How messages and diffs call the row."""
        return f"{self.row.table}/{self.row.key}"


class Desired:
    """All desired rows: `rows` by (table, key), and the `columns` that are managed by table.

    Making one gives names and columns, enough to ask the database; `encode` then does the work while it answers.
    """

    def __init__(self, schema, identity, rows):
        self.schema, self.identity = schema, identity
        self.rows, self.columns, self.problems = {}, {}, []
        self.held = set()
        for row in rows:
            self._add(row)

    def encode(self):
        """Check and encode all values; raises `InvalidRows` with everything that is wrong."""
        for wanted in self.rows.values():
            self._encode(wanted)
        self._check_parents()
        if self.problems:
            raise InvalidRows(self.schema.name, self.problems)

    def resolve(self, ref):
        """The uuid of the row that a reference names; `BadValue` when it is not among the desired rows."""
        try:
            return self.rows[ref.table, ref.key].uuid
        except KeyError:
            raise BadValue(f"refers to {ref.table}/{ref.key}, which is not among the desired rows") from None

    def rename(self, names):
        """Use other uuids (old -> new) in all references, after rows turned out to exist under them."""
        self.held = {names.get(uuid, uuid) for uuid in self.held}
        for wanted in self.rows.values():
            columns = wanted.table.columns
            for name, value in wanted.row.columns.items():
                if columns[name].refers:
                    self._encode_column(wanted, columns[name], value)
            for members in wanted.members.values():
                stale = members & names.keys()
                members -= stale
                members |= {names[uuid] for uuid in stale}

    def _add(self, row):
        try:
            table = self.schema.table(row.table)
        except UnknownName as error:
            self.problems.append(f"{row.table}/{row.key}: {error}")
            return
        name = row.table, row.key
        if name in self.rows:
            self.problems.append(f"{row.table}/{row.key} is desired twice")
            return
        wanted = self.rows[name] = Wanted(row, table, self.identity.uuid_of(table, row))
        managed = self.columns.get(row.table)
        if managed is None:
            managed = self.columns[row.table] = set()
        managed.update(row.columns)
        if row.parent is not None:
            self.columns.setdefault(row.parent.table, set()).add(row.parent.column)
        if row.match is not None:
            wanted.match = {column: self._encode_match(wanted, column) for column in row.match}

    def _encode_match(self, wanted, name):
        try:
            return self.schema.column(wanted.table, name).encode(wanted.row.match[name], self.resolve)
        except (UnknownName, BadValue) as error:
            self.problems.append(f"{wanted.label}: match on {name}: {error}")
            return None

    def _encode(self, wanted):
        row, columns, whole, resolve = wanted.row, wanted.table.columns, wanted.whole, self.resolve
        for name, value in row.columns.items():
            column = columns.get(name)
            if column is None:
                self._reject_column(wanted, name)
                continue
            try:
                if column.kind is WHOLE:
                    whole[name] = column.encode(value, resolve)
                else:
                    self._encode_column(wanted, column, value)
            except BadValue as error:
                self.problems.append(f"{wanted.label}: {name}: {error}")
        if wanted.table.marked and MARKS not in row.columns:
            wanted.keys = {**wanted.keys, MARKS: self.identity.marks(row)}
        if row.parent is not None:
            self._join(wanted, row.parent)

    def _encode_column(self, wanted, column, value):
        name, row = column.name, wanted.row
        if column.kind is WHOLE:
            wanted.whole[name] = column.encode(value, self.resolve)
        elif column.kind is MEMBERS:
            if wanted.members is NO_KEYS:
                wanted.members = {}
            wanted.members.setdefault(name, set()).update(uuids(column.encode(value, self.resolve)))
        elif isinstance(value, Keys) or row.match is not None or column.volatile:
            self._encode_keys(wanted, column, value)
        else:
            if name == MARKS and wanted.table.marked and isinstance(value, dict):
                value = self.identity.marked(value, row)
            wanted.whole[name] = column.encode(value, self.resolve)

    def _encode_keys(self, wanted, column, value):
        values = value.values if isinstance(value, Keys) else value
        if not isinstance(values, Mapping):
            raise BadValue(f"wants a map, got {type(values).__name__}")
        if column.name == MARKS and wanted.table.marked:
            values = {**values, **self.identity.marks(wanted.row)}
        present = {key: item for key, item in values.items() if item is not None}
        keys = dict.fromkeys(values)
        keys.update((key, item) for key, item in column.encode(present, self.resolve)[1])
        wanted.keys = {**wanted.keys, column.name: keys}

    def _join(self, wanted, parent):
        """Make the row a member of its parent's column."""
        row = wanted.row
        holder = self.rows.get((parent.table, parent.key))
        if holder is None:
            self.problems.append(
                f"{wanted.label}: its parent {parent.table}/{parent.key} is not among the desired rows"
            )
            return
        column = holder.table.columns.get(parent.column)
        if column is None:
            self._reject_column(holder, parent.column)
            return
        if column.kind is not MEMBERS or row.table not in column.refers:
            self.problems.append(f"{wanted.label}: {parent.table}.{parent.column} does not hold {row.table} rows")
            return
        if holder.row.network and not row.network:
            network = holder.row.network
            self.problems.append(f"{wanted.label} is shared by all networks, but its parent belongs to {network}")
        if holder.members is NO_KEYS:
            holder.members = {}
        holder.members.setdefault(parent.column, set()).add(wanted.uuid)

    def _reject_column(self, wanted, name):
        try:
            self.schema.column(wanted.table, name)
        except UnknownName as error:
            self.problems.append(f"{wanted.row.table}/{wanted.row.key}: {error}")

    def _check_parents(self):
        """ovsdb-server drops a non-root row that nothing refers to, and reports success (RFC 7047 section 3.2)."""
        held = self.held
        for wanted in self.rows.values():
            for members in wanted.members.values():
                held |= members
            for name in wanted.whole:
                if wanted.table.columns[name].refers and name in wanted.row.columns:
                    held |= _referenced(wanted.row.columns[name], self)
        for wanted in self.rows.values():
            if not wanted.table.root and wanted.match is None and wanted.uuid not in held:
                self.problems.append(f"{wanted.label} has no parent and would vanish at once")


def _referenced(value, desired):
    """uuids of the desired rows that a Python column value names."""
    if isinstance(value, Mapping):
        value = [*value, *value.values()]
    elif isinstance(value, Ref):
        value = (value,)
    found = set()
    for item in value if isinstance(value, (set, frozenset, list, tuple)) else ():
        if isinstance(item, Ref) and (item.table, item.key) in desired.rows:
            found.add(desired.rows[item.table, item.key].uuid)
    return found
