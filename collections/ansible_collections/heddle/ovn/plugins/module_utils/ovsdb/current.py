# SPDX-License-Identifier: Apache-2.0
"""The current rows of one owner in a database: which are desired, and which are left over."""

from __future__ import annotations

from dataclasses import dataclass

from ..common.errors import InvalidRows, RowProblem
from .identity import KEY, NETWORK, OWNER
from .protocol.schema import MARKS, MEMBERS
from .rows import Reader
from .values import all_uuids, map_pairs


@dataclass(frozen=True, slots=True)
class Leftover:
    """A row of the owner that is not desired."""

    table: str
    uuid: str
    network: str
    row: dict


class Current:
    """Rows as read: `rows` by table and uuid; `leftovers` are the owner's rows that are not desired.

    Making one reads them and encodes the desired rows meanwhile; `locate` needs these checked.
    """

    def __init__(self, client, schema, identity, desired, scope, retry_candidates):
        self._schema, self._identity, self._desired = schema, identity, desired
        reader = Reader(client, schema, identity, desired, scope)
        reader.read(retry_candidates)
        self._without = scope.without if scope else frozenset()
        self._networks, self.purged, self.member_columns = reader.networks, reader.purged, reader.member_columns
        self.rows, self._found, self._owned = reader.rows, reader.found, {}
        self.leftovers = []
        self._resolve_ownership()

    def owns(self, table, uuid):
        """Whether the owner made that row, as far as it was read."""
        return uuid in self._owned.get(table, ())

    def locate(self):
        """Assign each desired row its current state and real uuid, and find leftovers."""
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
                problem = f"{wanted.label}: {len(found)} rows match {wanted.row.match}"
                raise InvalidRows(self._schema.name, [RowProblem(problem, wanted.unit)])
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
                    marks = map_pairs(row[MARKS])
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
                        return map_pairs(row[MARKS]).get(NETWORK, "")
        for network in self._networks or ():
            if self._identity.made_for(uuid, network):
                return network
        return ""

    def _resolve_ownership(self):
        unmarked = []
        for name, rows in self.rows.items():
            table = self._schema.tables[name]
            if table.marked:
                self._owned[name] = self._not_left_alone(rows)
            elif table.root:
                self._owned[name] = {uuid for uuid in rows if self._made(name, uuid)}
            else:
                unmarked.append(name)
        # Rows that cannot carry marks and cannot live alone belong to the owner of the rows that refer to them. Such
        # rows can refer to each other, so this repeats until nothing is added.
        self._owned.update((name, set()) for name in unmarked)
        growing = bool(unmarked)
        while growing:
            growing = False
            for name in unmarked:
                held = self._held_by_owned(name) & self.rows[name].keys()
                growing = growing or not held <= self._owned[name]
                self._owned[name] |= held

    def _not_left_alone(self, rows):
        if not self._without:
            return rows
        return {uuid: row for uuid, row in rows.items() if _network(row) not in self._without}

    def _made(self, table, uuid):
        if not self._identity.made(table, uuid):
            return False
        if any(self._identity.made_for(uuid, network) for network in self._without):
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


def _network(row):
    """The unit in a row's marks; "" of an unchanged one, whose content was not kept."""
    return map_pairs(row[MARKS]).get(NETWORK, "") if MARKS in row else ""
