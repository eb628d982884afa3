# SPDX-License-Identifier: Apache-2.0
"""Reads the rows of one owner from a database.

Everything: one transaction per table, all sent at once, so that the server reads one table while the previous one is
decoded and compared, and other clients are served in between. Tables are read before those that hold their rows:
a row that is missing although a holder read later refers to it was inserted concurrently, and the insert will collide.

Known rows: one transaction that selects by uuid, whose cost is independent of the size of the database. Rows that
these hold are read in turn.

`_uuid` is always selected, because `select` drops rows that are equal in the selected columns.
"""

from __future__ import annotations

from ..common.errors import InvalidRows, RowProblem
from .diff import forget_equal
from .identity import KEY, NETWORK, OWNER
from .protocol.schema import MARKS, MEMBERS, UnknownName
from .values import map_pairs, uuids

# From this many networks on, reading all rows of the owner is cheaper than one scan per network.
NETWORKS_BY_SCAN = 50


class Reader:
    """Reads rows into `rows` (the owner's, by table and uuid) and `found` (by name and uuid, of any owner)."""

    def __init__(self, client, schema, identity, desired, scope):
        self._client, self._schema, self._identity, self._desired = client, schema, identity, desired
        self.networks = scope.networks if scope else None
        self._former = scope.former if scope and self.networks is not None else None
        self._only = scope.only if scope else None
        self.purged = self._purged_tables(scope)
        self._tables = set(desired.columns) & schema.tables.keys() | self.purged
        self.member_columns, self._columns = {}, {}
        self.rows, self.found = {}, {}

    def read(self, retry_candidates):
        """Read everything; desired rows are encoded while the server works. `retry_candidates` are read by uuid."""
        if self._former is None:
            self._read_tables(retry_candidates)
        else:
            self._read_known()

    def _read_tables(self, retry_candidates):
        desired, started = self._desired, []
        single = self._single_selects(retry_candidates)
        if single:
            started.append((list(single), None, self._start(single.values())))
        for name in _members_first(self._schema, self._tables | self._targets()):
            columns = self._columns_of(name)
            selects = [_select(name, where, columns) for where in self._conditions(self._schema.tables[name])]
            started.append(((), name, self._start(selects)))
        desired.identify()
        for names, table, request in started:
            if table is not None:
                desired.encode_table(table)
            answers = self._client.finish(request)
            if table is None:
                for name, answer in zip(names, answers, strict=True):
                    self.found[name] = _by_uuid(answer)
                continue
            rows = self.rows[table] = {}
            for answer in answers:
                rows.update(_by_uuid(answer))
            forget_equal(desired.groups(table), rows, self._referring(table))

    def _read_known(self):
        """Read the current and former rows of these networks, and the rows that they hold."""
        desired, identity = self._desired, self._identity
        desired.identify()
        names = {}
        for (table, key), wanted in desired.rows.items():
            compared = wanted.unit in self.networks and (self._only is None or (table, key) in self._only)
            if compared and wanted.match is None:
                names[table, wanted.uuid] = table, key
        for row in self._former:
            if row.network in self.networks and row.table in self._schema.tables:
                uuid = identity.uuid_of(self._schema.tables[row.table], row)
                names.setdefault((row.table, uuid), None)
        single = self._single_selects(())
        selects = [*single.values(), *self._selects_of(names)]
        request = self._start(selects) if selects else None
        for table in desired.columns:
            desired.encode_table(table)
        answers = self._client.finish(request) if request else []
        for name, answer in zip(single, answers, strict=False):
            self.found.setdefault(name, {}).update((row["_uuid"][1], row) for row in answer["rows"])
        answers = answers[len(single) :]
        seen = set(names)
        while names:
            for (place, name), answer in zip(names.items(), answers, strict=True):
                for row in answer["rows"]:
                    self._file(*place, name, row)
            names = dict.fromkeys(place for place in self._held_places() if place not in seen)
            seen.update(names)
            answers = self._client.finish(self._start(self._selects_of(names))) if names else []

    def _selects_of(self, places):
        return [_select(table, [["_uuid", "==", ["uuid", uuid]]], self._columns_of(table)) for table, uuid in places]

    def _file(self, table, uuid, name, row):
        """Store a row that was read by uuid: only its marks show whether it is the owner's."""
        known = self._schema.tables[table]
        if known.marked:
            marks = map_pairs(row[MARKS])
            mine = marks.get(OWNER) == self._identity.owner and marks.get(NETWORK, "") in self.networks and KEY in marks
        else:
            mine = not known.root or self._identity.made(table, uuid)
        if mine:
            self.rows.setdefault(table, {})[uuid] = row
        elif name is not None:
            self.found.setdefault(name, {})[uuid] = row

    def _held_places(self):
        """(table, uuid) of all rows that the rows read so far keep alive."""
        for table, rows in self.rows.items():
            for column in self._schema.tables[table].columns.values():
                if column.strong and column.kind is MEMBERS:
                    for row in rows.values():
                        for uuid in uuids(row[column.name]) if column.name in row else ():
                            yield from ((target, uuid) for target in column.refers)

    def _start(self, selects):
        return self._client.start(self._schema.name, list(selects))

    def _single_selects(self, retry_candidates):
        """Selects for desired rows that are found by content, or that were just rejected as duplicates."""
        if retry_candidates:
            self._desired.identify()
        selects = {}
        for wanted in self._desired.matching:
            if None not in wanted.match.values():
                where = [[column, "==", wire] for column, wire in wanted.match.items()]
                selects[wanted.row.table, wanted.row.key] = where
        for name in retry_candidates:
            wanted = self._desired.rows.get(name)
            if wanted is not None and wanted.match is None:
                selects[name] = [["_uuid", "==", ["uuid", wanted.uuid]]]
        return {name: _select(name[0], where, self._columns_of(name[0])) for name, where in selects.items()}

    def _purged_tables(self, scope):
        if scope is None:
            return frozenset(self._desired.columns) & self._schema.tables.keys()
        if scope.tables is None:
            return frozenset(self._schema.tables)
        try:
            return frozenset(self._schema.table(name).name for name in scope.tables)
        except UnknownName as error:
            raise InvalidRows(self._schema.name, [RowProblem(str(error))]) from error

    def _targets(self):
        """Tables of the rows that managed set columns hold."""
        targets = set()
        for name in self._desired.columns.keys() & self._schema.tables.keys():
            for column in self._desired.columns[name]:
                known = self._schema.tables[name].columns.get(column)
                if known is not None and known.kind is MEMBERS:
                    targets.update(known.refers)
        return targets

    def _columns_of(self, name):
        """Columns to read of a table: the managed ones, and those that hold rows that may be purged."""
        known = self._columns.get(name)
        if known is not None:
            return known
        table, managed = self._schema.tables[name], self._desired.columns.get(name)
        if managed is None and name in self.purged:
            names = {column.name for column in table.columns.values() if not column.ephemeral}
        else:
            names = (managed or set()) & table.columns.keys()
        if name in self._tables:
            names = names | {
                column.name
                for column in table.columns.values()
                if column.strong and not self._tables.isdisjoint(column.refers)
            }
        self.member_columns[name] = [column for column in sorted(names) if table.columns[column].kind is MEMBERS]
        if table.marked:
            names.add(MARKS)
        columns = self._columns[name] = ["_uuid", *sorted(names)]
        return columns

    def _referring(self, name):
        """Columns of the table that were read and may refer to rows."""
        columns = self._schema.tables[name].columns
        return frozenset(column for column in self._columns_of(name) if column in columns and columns[column].refers)

    def _conditions(self, table):
        if not table.marked:
            return [[]]
        if self.networks is None or len(self.networks) > NETWORKS_BY_SCAN:
            return [[self._identity.condition]]
        return [[self._identity.network_condition(network)] for network in sorted(self.networks)]


def _select(table, where, columns):
    return {"op": "select", "table": table, "where": where, "columns": columns}


def _by_uuid(answer):
    """The rows of a reply by uuid; the reply does not keep them."""
    return {row["_uuid"][1]: row for row in answer.pop("rows")}


def _members_first(schema, names):
    """The tables in an order in which held rows come before their holders; arbitrary within a cycle."""
    ordered, seen = [], set()

    def visit(name):
        if name not in seen:
            seen.add(name)
            for column in schema.tables[name].columns.values():
                if column.strong:
                    for target in column.refers:
                        visit(target)
            if name in names:
                ordered.append(name)

    for name in sorted(names):
        visit(name)
    return ordered
