# SPDX-License-Identifier: Apache-2.0
"""Plans the transactions for the differences: operations by unit, guarded by what was read.

A unit is one network; it is written completely or not at all. Units that refer to each other's rows are joined. Rows
common to all networks are written first, and their deletions come last.
"""

from __future__ import annotations

import math

from ..common.change import Change
from ..common.errors import InvalidRows, RowProblem
from .diff import NOTHING, UNCHANGED, Described, birth_row, compare, held_uuids
from .identity import KEY, MARK_KEYS
from .protocol.schema import MAP, MARKS, WHOLE
from .titles import Names, differing, title_of
from .values import map_pairs, map_wire, to_python

NETWORKS_PER_TRANSACTION = 5
# ovsdb-server spends up to twice the processor time on a row in transactions that are longer than its caches.
ROWS_PER_TRANSACTION = 150
# After each change of its bridges' ports, ovs-vswitchd goes through all ports, and ovn-controller computes anew.
PORTS_TOGETHER = 200, math.inf
SHARED, LAST = "", None


class Unit:
    """The operations of one network."""

    __slots__ = ("changes", "guards", "inserts", "networks", "writes")

    def __init__(self, networks):
        self.networks, self.guards, self.inserts, self.writes, self.changes = networks, [], [], [], []

    def operations(self, plan):
        """The operations, guards first. Also completes `changes` with created rows."""
        inserts = []
        for wanted in self.inserts:
            row = birth_row(wanted, plan.later.get(wanted.uuid, NOTHING))
            inserts.append({"op": "insert", "table": wanted.row.table, "uuid": wanted.uuid, "row": row})
        return self.guards + inserts + self.writes

    @property
    def rows(self) -> int:
        """Return how many rows are written, one that is written twice counted twice."""
        return len(self.inserts) + len(self.writes)

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to write."""
        return not (self.guards or self.inserts or self.writes)

    def all_changes(self, plan: TransactionPlan) -> list[Change]:
        """Return the changes of this unit in the order in which they are reported: creations, then all others."""
        return [plan.creation(wanted) for wanted in self.inserts] + self.changes

    def absorb(self, other):
        """Merge another unit into this one."""
        self.networks |= other.networks
        for name in ("guards", "inserts", "writes", "changes"):
            getattr(self, name).extend(getattr(other, name))


class TransactionPlan:
    """All units of one run. `first`, then `chunks()`, then `last`, may be empty."""

    def __init__(self, schema, identity, desired, current, networks=None, only=None):
        self._schema, self._identity, self._current, self._networks = schema, identity, current, networks
        self._by_uuid = {wanted.uuid: wanted for wanted in desired.rows.values()}
        self._names = Names(self._by_uuid)
        self._deletes = {left.uuid: left for left in current.leftovers}
        self._units, self._problems, self._referring = {}, [], {}
        self.later = {}
        self._guarded, self._only = set(), only
        for wanted in desired.rows.values():
            if wanted.current is not UNCHANGED:
                self._consider(wanted, desired)
        if self._problems:
            raise InvalidRows(schema.name, self._problems)
        for left in current.leftovers:
            self._delete(left)

    def orphans(self):
        """Undesired rows that cannot be deleted as such, and whose holders this plan does not release."""
        retry_candidates = [left for left in self._deletes.values() if not self._schema.tables[left.table].root]
        if not retry_candidates:
            return []
        held = set()
        for left in self._deletes.values():
            held |= held_uuids(self._schema.tables[left.table], left.row, left.row)
        for wanted in self._by_uuid.values():
            if wanted.current is not None and self._active(wanted):
                names = [*self._current.member_columns[wanted.row.table], *wanted.whole]
                held |= held_uuids(wanted.table, wanted.current, names)
        return [left for left in retry_candidates if left.uuid not in held]

    def release(self, left, holder_table, column, holder_uuid):
        """Remove an undesired row from a holder that was read."""
        where = [["_uuid", "==", ["uuid", holder_uuid]]]
        mutation = [column, "delete", ["set", [["uuid", left.uuid]]]]
        operation = {"op": "mutate", "table": holder_table, "where": where, "mutations": [mutation]}
        self._unit(self._last_if_shared(left.network)).writes.append(operation)

    def first(self):
        """The common unit, as a list of units."""
        return [self._units[SHARED]] if SHARED in self._units else []

    def last(self):
        """Deletions in the common unit, as a list of units."""
        return [self._units[LAST]] if LAST in self._units else []

    def chunks(self, size=NETWORKS_PER_TRANSACTION, limit=ROWS_PER_TRANSACTION):
        """Lists of at most `size` units, with at most `limit` rows unless one has more, that are written together."""
        chunk, rows = [], 0
        for unit in self._network_units():
            if chunk and (len(chunk) == size or rows + unit.rows > limit):
                yield chunk
                chunk, rows = [], 0
            chunk.append(unit)
            rows += unit.rows
        if chunk:
            yield chunk

    @staticmethod
    def has_operations(units) -> bool:
        """Return whether any of the units has operations."""
        return any(not unit.is_empty for unit in units)

    def changes(self):
        """Everything that would change, in the order of writing."""
        units = [*self.first(), *self._network_units(), *self.last()]
        return [change for unit in units for change in unit.all_changes(self)]

    def name_of(self, operation):
        """The name of an operation's row in error messages."""
        uuid = operation.get("uuid")
        if uuid is None:
            uuid = next((clause[2][1] for clause in operation.get("where", ()) if clause[0] == "_uuid"), None)
        return self._label(uuid)

    def creation(self, wanted):
        """The change for a created row."""
        row = wanted.row
        return Change(self._schema.name, "create", row.table, title_of(row), row.network, {}, Described(row.columns))

    # -- planning ----------------------------------------------------------------------------------------------------

    def _consider(self, wanted, desired):
        active = self._active(wanted)
        if wanted.current is None:
            if active:
                self._insert(wanted, desired)
            elif wanted.members:
                self._attach_unread(wanted)
            return
        if not active:
            self._attach_unread(wanted)
            return
        difference = compare(wanted, self._current)
        if difference is not None:
            self._update(wanted, difference)

    def _insert(self, wanted, desired):
        if not wanted.table.root and wanted.uuid not in desired.held:
            problem = f"{wanted.label}: no row matches {dict(wanted.row.match)}, and it has no parent"
            self._problems.append(RowProblem(problem, wanted.unit))
            return
        unit = self._unit(wanted.unit)
        if wanted.match is not None:
            where = [[column, "==", wire] for column, wire in wanted.match.items()]
            unit.guards.append(_wait(wanted.row.table, where, ["_uuid"], []))
        unit.inserts.append(wanted)
        self._check_references(wanted, wanted.whole)
        for name, members in wanted.members.items():
            later = {uuid for uuid in members if not self._same_unit(wanted, uuid)}
            if later:
                self.later[wanted.uuid] = self.later.get(wanted.uuid, NOTHING) | later
                self._add_members(wanted, name, later)

    def _update(self, wanted, difference):
        unit = self._unit(wanted.unit)
        row, before, after = wanted.row, {}, {}
        where = [["_uuid", "==", ["uuid", wanted.uuid]]]
        guard = {"_uuid": ["uuid", wanted.uuid]}
        conditions, mutations = list(where), []
        for name, (old, new) in difference.columns.items():
            if not wanted.table.columns[name].mutable:
                problem = (
                    f"{wanted.label}: {name} cannot be changed once the row exists "
                    f"(is {to_python(old)!r}, wanted {to_python(new)!r}); use another key"
                )
                self._problems.append(RowProblem(problem, wanted.unit))
            guard[name] = old
            before[name], after[name] = self._readable(old), self._readable(new)
            if wanted.table.columns[name].kind is MAP:
                before[name], after[name] = differing(before[name], after[name])
        if difference.columns:
            self._check_references(wanted, difference.columns)
            new_row = {name: new for name, (old, new) in difference.columns.items()}
            unit.writes.append({"op": "update", "table": row.table, "where": where, "row": new_row})
        for name, (have, put, drop) in difference.keys.items():
            replaced = {key: have[key] for key in put if key in have}
            if replaced:
                conditions.append([name, "includes", map_wire(replaced)])
            gone = [*replaced, *drop]
            if gone:
                mutations.append([name, "delete", ["set", gone]])
            if put:
                mutations.append([name, "insert", map_wire(put)])
            touched = put.keys() | set(drop)
            before[name] = {key: self._readable(have[key]) for key in sorted(touched) if key in have}
            after[name] = {key: self._readable(put[key]) for key in sorted(put)}
        if len(guard) > 1 or mutations:
            unit.guards.append(_wait(row.table, conditions, list(guard), [guard]))
        if mutations:
            unit.writes.append({"op": "mutate", "table": row.table, "where": where, "mutations": mutations})
        for name, (added, removed) in difference.members.items():
            # Rows of networks that are not part of this plan were not read, and some could not be created.
            held = wanted.table.columns[name].strong
            planned = {uuid for uuid in added if self._may_be_member(uuid, held)}
            if planned or removed:
                self._update_members(wanted, name, planned, removed, before, after)
        if before or after:
            change = Change(self._schema.name, "update", row.table, title_of(row), row.network, before, after)
            unit.changes.append(change)

    def _update_members(self, wanted, name, added, removed, before, after):
        self._add_members(wanted, name, added)
        for uuid in removed:
            deletes = self._deletes.get(uuid)
            place = self._last_if_shared(deletes.network) if deletes and not wanted.unit else wanted.unit
            self._mutate(place, wanted, name, "delete", [uuid])
        # A row that only exists as a member is reported as created or deleted; its membership is not listed.
        reported = {uuid for uuid in added if self._is_insert(uuid)} | {
            uuid
            for uuid in removed
            if uuid in self._deletes and not self._schema.tables[self._deletes[uuid].table].root
        }
        if not added | removed <= reported:
            before[name] = sorted(map(self._label, removed - reported))
            after[name] = sorted(map(self._label, added - reported))

    def _add_members(self, wanted, name, uuids):
        here = {uuid for uuid in uuids if self._same_unit(wanted, uuid)}
        if here:
            self._mutate(wanted.unit, wanted, name, "insert", sorted(here))
        by_unit = {}
        for uuid in sorted(uuids - here):
            by_unit.setdefault(self._by_uuid[uuid].unit, []).append(uuid)
        for unit, members in by_unit.items():
            self._mutate(unit, wanted, name, "insert", members)

    def _attach_unread(self, wanted):
        """Add rows that are created in this run to a holder that is not part of it."""
        for name, members in wanted.members.items():
            inserts = {
                uuid
                for uuid in members
                if (member := self._by_uuid.get(uuid)) and member.current is None and self._active(member)
            }
            for uuid in sorted(inserts):
                self._mutate(self._by_uuid[uuid].unit, wanted, name, "insert", [uuid])

    def _mutate(self, place, wanted, name, mutator, uuids):
        """Change members of a set; the guard is that the row still exists, whatever its other members."""
        unit = self._unit(place)
        where = [["_uuid", "==", ["uuid", wanted.uuid]]]
        if (place, wanted.uuid) not in self._guarded:
            self._guarded.add((place, wanted.uuid))
            unit.guards.append(_wait(wanted.row.table, where, ["_uuid"], [{"_uuid": ["uuid", wanted.uuid]}]))
        mutation = [name, mutator, ["set", [["uuid", uuid] for uuid in uuids]]]
        unit.writes.append({"op": "mutate", "table": wanted.row.table, "where": where, "mutations": [mutation]})

    def _delete(self, left):
        place = self._last_if_shared(left.network)
        table = self._schema.tables[left.table]
        unit = self._unit(place)
        if table.root:
            where = [["_uuid", "==", ["uuid", left.uuid]]]
            if table.marked:
                where.append(self._identity.condition)
            unit.writes.append({"op": "delete", "table": left.table, "where": where})
        before = {
            name: self._readable(wire)
            for name, wire in left.row.items()
            if name not in ("_uuid", MARKS) and wire not in (["set", []], ["map", []])
        }
        marks = map_pairs(left.row[MARKS]) if table.marked else {}
        rest = {key: value for key, value in marks.items() if key not in MARK_KEYS}
        if rest:
            before[MARKS] = rest
        title = left.row.get(table.title)
        name = title if isinstance(title, str) else marks.get(KEY, left.uuid)
        unit.changes.append(Change(self._schema.name, "delete", left.table, name, left.network, before, {}))

    # -- units -------------------------------------------------------------------------------------------------------

    def _active(self, wanted):
        return self._networks is None or (
            wanted.unit in self._networks and (self._only is None or (wanted.row.table, wanted.row.key) in self._only)
        )

    def _may_be_member(self, uuid, held):
        """Whether a row may be added to a set: a reference that does not hold it vanishes when there is no such row."""
        wanted = self._by_uuid.get(uuid)
        return wanted is None or self._active(wanted) or (not held and wanted.unit in self._networks)

    def _unit(self, place):
        unit = self._units.get(place)
        if unit is None:
            unit = self._units[place] = Unit({SHARED if place is LAST else place})
        return unit

    def _network_units(self):
        units = {id(unit): unit for place, unit in self._units.items() if place not in (SHARED, LAST)}
        return list(units.values())

    def _join(self, one, other):
        unit, absorbed = self._unit(one), self._unit(other)
        if unit is not absorbed:
            unit.absorb(absorbed)
            for network in absorbed.networks:
                self._units[network] = unit

    @staticmethod
    def _last_if_shared(network):
        return network or LAST

    def _same_unit(self, wanted, uuid):
        """Whether a reference can be written with the row that has it: its target exists by then."""
        target = self._by_uuid.get(uuid)
        if target is None or target.current is not None or target.unit in (wanted.unit, SHARED):
            return True
        if wanted.unit == SHARED:
            return False
        self._join(wanted.unit, target.unit)
        return True

    def _check_references(self, wanted, columns):
        """Join units whose rows refer to each other; a common row cannot need a row that is written after it."""
        table = wanted.table
        referring = self._referring.get(table.name)
        if referring is None:
            referring = {name for name, column in table.columns.items() if column.refers and column.kind is WHOLE}
            self._referring[table.name] = referring
        if not referring:
            return
        for name in referring & columns.keys():
            for uuid in held_uuids(table, wanted.whole, [name], strong=False):
                if not self._same_unit(wanted, uuid):
                    problem = (
                        f"{wanted.label} is shared by all networks, but its {name} is {self._label(uuid)} of "
                        f"network {self._by_uuid[uuid].unit}"
                    )
                    self._problems.append(RowProblem(problem, wanted.unit))

    # -- names -------------------------------------------------------------------------------------------------------

    def _is_insert(self, uuid):
        target = self._by_uuid.get(uuid)
        return target is not None and target.current is None and not target.table.root

    def _label(self, uuid):
        if uuid in self._deletes:
            left = self._deletes[uuid]
            return f"{left.table}/{map_pairs(left.row.get(MARKS, ('map', ()))).get(KEY, uuid)}"
        return self._names.get(uuid, uuid)

    def _readable(self, wire):
        return to_python(wire, self._names)


def _wait(table, where, columns, rows):
    """A guard: the whole transaction fails at once unless the rows are as they were read (RFC 7047 section 5.2.6)."""
    return {
        "op": "wait",
        "timeout": 0,
        "table": table,
        "where": where,
        "columns": columns,
        "until": "==",
        "rows": rows,
    }
