# SPDX-License-Identifier: Apache-2.0
"""Reads what a database has of one owner, in one transaction, and finds the desired rows in it.

One `select` list is an atomic snapshot. `_uuid` is always asked for, because `select` drops rows that are equal in
the columns asked for.
"""

from __future__ import annotations

from dataclasses import dataclass

from .ovsdb_identity import KEY, NETWORK, OWNER
from .ovsdb_schema import MARKS, MEMBERS
from .ovsdb_values import all_uuids
from .ovsdb_wanted import InvalidRows

# From this many networks on, reading everything the owner has is cheaper than one scan per network.
NETWORKS_BY_SCAN = 50


@dataclass(frozen=True, slots=True)
class Leftover:
    """A row of the owner that is not desired."""

    table: str
    uuid: str
    network: str
    row: dict


class Current:
    """Rows as read: `rows` by table and uuid; `leftovers` are the owner's rows that are not desired.

    Making one sends the question; `finish` waits for the answer; `locate` needs encoded desired rows.
    """

    def __init__(self, client, schema, identity, desired, scope, suspects):
        self._schema, self._identity, self._desired = schema, identity, desired
        self._networks = scope.networks if scope else None
        self.purged = self._purged_tables(scope)
        self.member_columns = {}
        self.rows, self._owned, self._found = {}, {}, {}
        self.leftovers = []
        self._client = client
        self._purposes, operations = [], []
        for purpose, operation in self._selects(suspects):
            self._purposes.append(purpose)
            operations.append(operation)
        self._started = client.start(schema.name, operations)

    def finish(self):
        """Wait for the answer and sort it in."""
        for (kind, name), result in zip(self._purposes, self._client.finish(self._started), strict=True):
            rows = {row["_uuid"][1]: row for row in result["rows"]}
            if kind == "table":
                self.rows.setdefault(name, {}).update(rows)
            elif kind == "match":
                self._found[name] = rows
            else:
                self._found.setdefault(name, {}).update(rows)
        self._settle_ownership()

    def owns(self, table, uuid):
        """Whether the owner made that row, as far as it was read."""
        return uuid in self._owned.get(table, ())

    def locate(self):
        """Give each desired row its current state and real uuid, and find what is left over."""
        missing, claimed = [], set()
        for wanted in self._desired.rows.values():
            row = self.rows.get(wanted.row.table, {}).get(wanted.uuid)
            if row is None:
                missing.append(wanted)
            else:
                wanted.current = row
                claimed.add(wanted.uuid)
        by_key, unclaimed = self._unclaimed(claimed)
        renamed = {}
        for wanted in missing:
            self._locate_missing(wanted, by_key, renamed)
        if renamed:
            self._desired.rename(renamed)
        taken = claimed | set(renamed.values())
        self.leftovers = [
            Leftover(*item)
            for item in unclaimed
            if item[1] not in taken and item[0] in self.purged and (self._networks is None or item[2] in self._networks)
        ]

    def _locate_missing(self, wanted, by_key, renamed):
        name = wanted.row.table, wanted.row.key
        found = self._found.get(name, {})
        uuid = by_key.get(name)
        if wanted.uuid in found:
            uuid = wanted.uuid
        elif uuid is None and found:
            if len(found) > 1:
                raise InvalidRows(self._schema.name, [f"{wanted.label}: {len(found)} rows match {wanted.row.match}"])
            uuid = next(iter(found))
        if uuid is None:
            return
        wanted.current = found.get(uuid) or self.rows[wanted.row.table][uuid]
        wanted.adopted = wanted.match is not None and not self._marked_as_ours(wanted)
        if uuid != wanted.uuid:
            renamed[wanted.uuid] = wanted.uuid = uuid

    def _marked_as_ours(self, wanted):
        table = wanted.table
        if table.marked:
            return [OWNER, self._identity.owner] in wanted.current[MARKS][1]
        return self.owns(table.name, wanted.uuid)

    def _unclaimed(self, claimed):
        """The owner's rows that no desired row has by uuid: by key, and as (table, uuid, network, row)."""
        by_key, unclaimed = {}, []
        for table, owned in self._owned.items():
            marked = self._schema.tables[table].marked
            for uuid in owned:
                if uuid in claimed:
                    continue
                row = self.rows[table][uuid]
                if marked:
                    marks = dict(row[MARKS][1])
                    by_key[table, marks.get(KEY)] = uuid
                    network = marks.get(NETWORK, "")
                else:
                    network = self._network_of(table, uuid)
                unclaimed.append((table, uuid, network, row))
        return by_key, unclaimed

    def _network_of(self, table, uuid):
        """The unit of an undesired row without marks: its holder's network, or the one that its uuid names."""
        for holder, column in self._schema.holders[table]:
            if holder in self.rows and self._schema.tables[holder].marked and column.kind is MEMBERS:
                for row in self.rows[holder].values():
                    if column.name in row and uuid in all_uuids(row[column.name]):
                        return dict(row[MARKS][1]).get(NETWORK, "")
        for network in self._networks or ():
            if self._identity.made_for(uuid, network):
                return network
        return ""

    def _settle_ownership(self):
        unmarked = []
        for name, rows in self.rows.items():
            table = self._schema.tables[name]
            if table.marked:
                self._owned[name] = rows
            elif table.root:
                self._owned[name] = {uuid for uuid in rows if self._made(name, uuid)}
            else:
                unmarked.append(name)
        # Rows that cannot carry marks and cannot live alone belong to whoever owns what refers to them. Such rows can
        # hang on each other, so this repeats until nothing is added.
        self._owned.update((name, set()) for name in unmarked)
        growing = bool(unmarked)
        while growing:
            growing = False
            for name in unmarked:
                held = self._held_by_owned(name) & self.rows[name].keys()
                growing = growing or not held <= self._owned[name]
                self._owned[name] |= held

    def _made(self, table, uuid):
        if not self._identity.made(table, uuid):
            return False
        return self._networks is None or any(self._identity.made_for(uuid, network) for network in self._networks)

    def _held_by_owned(self, name):
        held = set()
        for holder, column in self._schema.holders[name]:
            for uuid in self._owned.get(holder, ()):
                wire = self.rows[holder][uuid].get(column.name)
                if wire:
                    held |= all_uuids(wire)
        return held

    def _purged_tables(self, scope):
        if scope is None:
            return frozenset(self._desired.columns) & self._schema.tables.keys()
        if scope.tables is None:
            return frozenset(self._schema.tables)
        return frozenset(self._schema.table(name).name for name in scope.tables)

    def _selects(self, suspects):
        desired, schema = self._desired, self._schema
        tables = set(desired.columns) & schema.tables.keys() | self.purged
        targets = set()
        for name in desired.columns.keys() & schema.tables.keys():
            for column in desired.columns[name]:
                known = schema.tables[name].columns.get(column)
                if known is not None and known.kind is MEMBERS:
                    targets.update(known.refers)
        columns = {}
        for name in sorted(tables | targets):
            columns[name] = self._columns(schema.tables[name], tables)
            for where in self._conditions(schema.tables[name]):
                yield ("table", name), _select(name, where, columns[name])
        for name, wanted in desired.rows.items():
            if wanted.match is not None and None not in wanted.match.values():
                where = [[column, "==", wire] for column, wire in wanted.match.items()]
                yield ("match", name), _select(name[0], where, columns[name[0]])
            elif name in suspects:
                yield ("uuid", name), _select(name[0], [["_uuid", "==", ["uuid", wanted.uuid]]], columns[name[0]])

    def _columns(self, table, tables):
        """What to read of a table: what is managed, and what holds rows that may be purged."""
        managed = self._desired.columns.get(table.name)
        if managed is None and table.name in self.purged:
            names = {name for name, column in table.columns.items() if not column.ephemeral}
        else:
            names = (managed or set()) & table.columns.keys()
        holders = {
            name
            for name, column in table.columns.items()
            if column.strong and not tables.isdisjoint(column.refers) and table.name in tables
        }
        names = names | holders
        self.member_columns[table.name] = [name for name in sorted(names) if table.columns[name].kind is MEMBERS]
        if table.marked:
            names.add(MARKS)
        return ["_uuid", *sorted(names)]

    def _conditions(self, table):
        if not table.marked:
            return [[]]
        if self._networks is None or len(self._networks) > NETWORKS_BY_SCAN:
            return [[self._identity.condition]]
        return [[self._identity.network_condition(network)] for network in sorted(self._networks)]


def _select(table, where, columns):
    return {"op": "select", "table": table, "where": where, "columns": columns}
