# SPDX-License-Identifier: Apache-2.0
"""Desired rows, checked against the schema and converted to wire values before anything is written.

Rows with the same columns form a shape. A shape is encoded column by column, which is far faster than row by row; a
shape with anything unusual in it (references by set, single keys of a map, a mistake) is encoded row by row.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter

from ..common.errors import InvalidRows, RowProblem
from .batch import REFUSALS
from .protocol.schema import MAP, MARKS, MEMBERS, WHOLE, UnknownName
from .values import BadValue, Keys, Ref, uuids

NO_KEYS: dict = {}


class Shape:
    """Rows of one table that have the same columns. `read` takes the values of these columns out of a row."""

    __slots__ = ("names", "read", "table")

    def __init__(self, table, names):
        self.table, self.names = table, names
        self.read = itemgetter(*names) if len(names) > 1 else lambda row: tuple(row[name] for name in names)


class DesiredState:
    """One desired row on the wire.

    `whole`: column -> wire value; `keys`: map column -> key -> wire atom or None; `members`: set column -> uuids;
    `match`: column -> wire value that finds the row. `uuid` is the row's real one once `current` has found the
    row, `current` the row in the database, `adopted` that it was made by other software. `values` are those of `whole`
    in the order of the shape, as long as the row has no others.
    """

    __slots__ = ("_whole", "adopted", "current", "keys", "match", "members", "row", "shape", "unit", "uuid", "values")

    def __init__(self, row, shape):
        self.row, self.shape, self.unit = row, shape, row.network
        self.uuid = self._whole = self.values = self.match = self.current = None
        self.keys = self.members = NO_KEYS
        self.adopted = False

    @property
    def table(self):
        """The table of the schema."""
        return self.shape.table

    @property
    def whole(self):
        """Columns that are compared and written as a whole."""
        if self._whole is None:
            self._whole = dict(zip(self.shape.names, self.values, strict=True)) if self.values else {}
        return self._whole

    @property
    def label(self) -> str:
        """The row in messages and diffs, as TABLE/KEY; the key is the renderer's and not the row's name or uuid."""
        return f"{self.row.table}/{self.row.key}"


class DesiredRow:
    """All desired rows: `rows` by (table, key), and the `columns` that are managed by table.

    The constructor collects names and columns, enough to query the database; `identify`, `encode_table` and `check`
    then run while it answers.
    """

    def __init__(self, schema, identity, rows):
        self.schema, self.identity = schema, identity
        self.rows, self.columns, self.problems = {}, {}, []
        self.held, self._identified = set(), False
        # Shapes have no reference to their rows: a reference cycle would only be freed by the collector, which is slow.
        self._shapes, self._referring, self.matching = {}, [], []
        holders = set()
        for row in rows:
            self._add(row, holders)
        for shape, _rows in self._shapes.values():
            self.columns.setdefault(shape.table.name, set()).update(shape.names)
        for table, column in holders:
            self.columns.setdefault(table, set()).add(column)
        for wanted in self.matching:
            wanted.match = {column: self._encode_match(wanted, column) for column in wanted.row.match}

    def identify(self):
        """Give every row its deterministic uuid, and make rows members of their parents."""
        if self._identified:
            return
        self._identified = True
        uuid_of = self.identity.uuid_of
        for shape, rows in self._shapes.values():
            for wanted in rows:
                wanted.uuid = uuid_of(shape.table, wanted.row)
        self._join_all()

    def encode_table(self, name):
        """Check and encode the values of one table's rows; errors are kept for `check`."""
        for shape, group in self.groups(name):
            if not self._encode_shape(shape, group):
                for wanted in group:
                    self._encode(wanted)

    def groups(self, name):
        """The shapes of one table, each with its rows."""
        return [known for known in self._shapes.values() if known[0].table.name == name]

    def check(self):
        """Raise `InvalidRows` with all errors."""
        self._check_parents()
        if self.problems:
            raise InvalidRows(self.schema.name, self.problems)

    def _refuse(self, row, text):
        self.problems.append(RowProblem(text, row.network))

    def resolve(self, ref):
        """The uuid of the row that a reference names; `BadValue` when it is not among the desired rows."""
        self.identify()
        try:
            return self.rows[ref.table, ref.key].uuid
        except KeyError:
            raise BadValue(f"refers to {ref.table}/{ref.key}, which is not among the desired rows") from None

    def rename(self, names):
        """Use other uuids (old -> new) in all references, after rows turned out to exist under them."""
        self.held = {names.get(uuid, uuid) for uuid in self.held}
        for wanted, name in self._referring:
            column, value = wanted.table.columns[name], wanted.row.columns[name]
            if column.kind is MEMBERS:
                self._encode_column(wanted, column, value)
            elif wanted.whole.get(name) != (wire := column.encode(value, self.resolve)):
                wanted.whole[name], wanted.values = wire, None
        for wanted in self.rows.values():
            for members in wanted.members.values():
                stale = members & names.keys()
                members -= stale
                members |= {names[uuid] for uuid in stale}

    def _add(self, row, holders):
        name = row.table, row.key
        if name in self.rows:
            self._refuse(row, f"duplicate row {row.table}/{row.key}")
            return
        key = row.table, row.match is None, *row.columns
        known = self._shapes.get(key)
        if known is None:
            try:
                table = self.schema.table(row.table)
            except UnknownName as error:
                self._refuse(row, f"{row.table}/{row.key}: {error}")
                return
            known = self._shapes[key] = Shape(table, key[2:]), []
        shape, rows = known
        wanted = self.rows[name] = DesiredState(row, shape)
        rows.append(wanted)
        if row.parent is not None:
            holders.add((row.parent.table, row.parent.column))
        if row.match is not None:
            self.matching.append(wanted)

    def _encode_match(self, wanted, name):
        try:
            return self.schema.column(wanted.table, name).encode(wanted.row.match[name], self.resolve)
        except (UnknownName, BadValue) as error:
            self._refuse(wanted.row, f"{wanted.label}: match on {name}: {error}")
            return None

    # -- a shape at once ---------------------------------------------------------------------------------------------

    def _encode_shape(self, shape, group):
        """Encode all rows of a shape, or none and return False."""
        table, rows = shape.table, [wanted.row for wanted in group]
        if rows[0].match is not None or not shape.names:
            return False
        columns = [table.columns.get(name) for name in shape.names]
        if any(column is None or column.kind is MEMBERS or column.volatile for column in columns):
            return False
        wires = []
        try:
            for column in columns:
                values = [row.columns[column.name] for row in rows]
                if column.kind is MAP:
                    if set(map(type, values)) != {dict}:
                        return False
                    if column.name == MARKS and table.marked:
                        values = list(map(self.identity.marked, values, rows))
                wires.append(column.encode_all(values, self.resolve))
        except REFUSALS:
            return False
        for wanted, values in zip(group, zip(*wires, strict=True), strict=True):
            wanted.values = values
        for column in columns:
            if column.refers:
                self._referring += [(wanted, column.name) for wanted in group]
        if table.marked and MARKS not in shape.names:
            for wanted in group:
                wanted.keys = {MARKS: self.identity.marks(wanted.row)}
        return True

    # -- row by row --------------------------------------------------------------------------------------------------

    def _encode(self, wanted):
        columns = wanted.table.columns
        for name, value in wanted.row.columns.items():
            column = columns.get(name)
            if column is None:
                self._reject_column(wanted, name)
                continue
            if column.refers:
                self._referring.append((wanted, name))
            try:
                self._encode_column(wanted, column, value)
            except BadValue as error:
                self._refuse(wanted.row, f"{wanted.label}: {name}: {error}")
        if wanted.table.marked and MARKS not in wanted.row.columns:
            wanted.keys = {**wanted.keys, MARKS: self.identity.marks(wanted.row)}

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
            raise BadValue(f"expected a map, got {type(values).__name__}")
        if column.name == MARKS and wanted.table.marked:
            values = {**values, **self.identity.marks(wanted.row)}
        present = {key: item for key, item in values.items() if item is not None}
        keys = dict.fromkeys(values)
        keys.update((key, item) for key, item in column.encode(present, self.resolve)[1])
        wanted.keys = {**wanted.keys, column.name: keys}

    def _reject_column(self, wanted, name):
        try:
            self.schema.column(wanted.table, name)
        except UnknownName as error:
            self._refuse(wanted.row, f"{wanted.row.table}/{wanted.row.key}: {error}")

    # -- parents -----------------------------------------------------------------------------------------------------

    def _join_all(self):
        """Make the rows members of their parents' columns."""
        rows = self.rows
        for _shape, group in self._shapes.values():
            fitting = set()
            for wanted in group:
                parent = wanted.row.parent
                if parent is None:
                    continue
                holder = rows.get((parent.table, parent.key))
                if holder is None:
                    reason = f"its parent {parent.table}/{parent.key} is not among the desired rows"
                    self._refuse(wanted.row, f"{wanted.label}: {reason}")
                    continue
                column = parent.column
                if (parent.table, column) not in fitting:
                    if not self._fits(wanted, holder, column):
                        continue
                    fitting.add((parent.table, column))
                if not wanted.unit and holder.unit:
                    shared = f"{wanted.label} is shared by all networks"
                    self._refuse(wanted.row, f"{shared}, but its parent belongs to {holder.unit}")
                members = holder.members
                if members is NO_KEYS:
                    members = holder.members = {}
                held = members.get(column)
                if held is None:
                    members[column] = {wanted.uuid}
                else:
                    held.add(wanted.uuid)

    def _fits(self, wanted, holder, name):
        """Whether the parent's column can hold the row; if not, that is recorded as a problem."""
        column = holder.table.columns.get(name)
        if column is None:
            self._reject_column(holder, name)
            return False
        if column.kind is not MEMBERS or wanted.row.table not in column.refers:
            self._refuse(wanted.row, f"{wanted.label}: {holder.row.table}.{name} does not hold {wanted.row.table} rows")
            return False
        return True

    def _check_parents(self):
        """ovsdb-server drops a non-root row that nothing refers to, and reports success (RFC 7047 section 3.2)."""
        held = self.held
        for wanted in self.rows.values():
            for members in wanted.members.values():
                held |= members
        for wanted, name in self._referring:
            held |= _referenced(wanted.row.columns[name], self)
        for shape, group in self._shapes.values():
            if not shape.table.root:
                for wanted in group:
                    if wanted.uuid not in held and wanted.match is None:
                        self._refuse(wanted.row, f"{wanted.label} has no parent and would vanish at once")


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
