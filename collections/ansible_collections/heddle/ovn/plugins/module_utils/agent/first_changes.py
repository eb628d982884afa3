# SPDX-License-Identifier: Apache-2.0
"""Writes what differs between two plans in endpoints, members, workloads, names, and networks that came or went.

That is before all else of the new plan.

Packets follow a changed endpoint after ovn-northd and ovn-controller have translated it, which they do meanwhile.

Where a record shows that the host was as the former plan wants it, this is all that there is to write to the Northbound
(`complete`). The record of the new plan has the other rows as they were read before the write, so a row that changes
meanwhile makes the next run compare everything. Without such a record all rows are compared afterwards, which finds
what this step left out or could not write, and whatever else differs; it does not matter then what the host really has,
or where a former run was cut off.
"""

from __future__ import annotations

from ..common.change import Outcome
from ..common.databases import OVN_NORTHBOUND
from ..ovsdb.identity import Identity
from ..ovsdb.narrowing import narrowed
from ..ovsdb.protocol.schema import schema_of
from ..ovsdb.protocol.trace import Replies, read_again, read_rows
from ..ovsdb.reconcile import reconcile
from ..ovsdb.values import Scope
from ..ovsdb.wait import Announcement
from ..render import northbound
from ..render.common.changed_networks import changed_networks
from ..render.northbound import render_northbound
from ..types.ovsdb_row import Row
from .context import NodeContext
from .module_runner import KNOWN_ERRORS, connected
from .plan_file import is_whole

# Comparing all rows takes about as long as a change of more networks.
_MOST_NETWORKS = 16
# Seconds that the server may be silent while it reads all rows.
_READ_TIMEOUT = 60.0


class FirstChanges:
    """The Northbound rows that differ between a host's former plan and `plan`; `owner` is theirs.

    Nothing is known to differ where the plans differ in other things or in many networks, or without a former plan.
    """

    def __init__(self, context: NodeContext, plan: dict, owner: str) -> None:
        self._context, self._plan, self._owner = context, plan, owner
        self._rows: list[Row] = []
        self._requests: list = []
        self._scope = Scope(networks=frozenset())
        # What the server replied before anything was written, where that is as recorded for the former plan.
        self._replies: Replies | None = None

    def write(self, remote: str, closing: Announcement) -> Outcome | None:
        """Write them in one transaction; return the changes, None where something is left to the comparison.

        `remote` is the Northbound, `closing` as for `reconcile`. What is wrong is for the comparison of all rows, which
        fails for the same reason, with its message, or finds that the host is not as it was.
        """
        context, former = self._context, self._context.former
        if not context.write or not former:
            return None
        if former["digest"] == self._plan["digest"]:
            return Outcome()
        differing = _differing(former, self._plan, context.node)
        if differing is None:
            return None
        self._rows, self._scope = differing
        replies = self._recorded(former, remote)
        if not self._scope.networks:
            self._replies = replies
            return Outcome()
        try:
            with connected(remote, write=True) as client:
                outcome = self._reconcile(client, write=True, closing=closing)
        except KNOWN_ERRORS:
            return None
        if not outcome.refused:
            self._replies = replies
        return Outcome(outcome.changes)

    def complete(self, client) -> bool:
        """Whether all rows of the Northbound are known to be as the plan wants them; this is recorded then.

        The rows that differ between the plans are compared once more, between two reads of them, so that what is
        recorded was compared.
        """
        if self._replies is None:
            return False
        if self._scope.networks:
            before = self._read_written(client)
            if before is None or self._reconcile(client, write=False).changed or self._read_written(client) != before:
                return False
            for table, (uuids, rows) in before.items():
                self._replies.replace(table, uuids, rows)
        record, context = self._context.record, self._context
        key = record.key(self._plan["digest"], context.node, self._owner)
        read = {"requests": self._requests, "replies": self._replies.digests()}
        record.keep(OVN_NORTHBOUND, key, read, confirmed=True)
        return True

    def _read_written(self, client) -> dict[str, tuple[frozenset[str], list[bytes]]] | None:
        """Return uuids and rows by table, of the rows that are compared and of those that are deleted."""
        found = {}
        for table, uuids in self._written(client).items():
            columns = self._replies.columns(table)
            rows = read_rows(client.server, OVN_NORTHBOUND, table, uuids, columns, client.timeout)
            if rows is None:
                return None
            found[table] = uuids, sorted(rows)
        return found

    def _reconcile(self, client, *, write: bool, closing: Announcement | None = None) -> Outcome:
        return reconcile(
            client, OVN_NORTHBOUND, self._rows, owner=self._owner, scope=self._scope, write=write, closing=closing
        )

    def _recorded(self, former: dict, remote: str) -> Replies | None:
        """Return what the server replies to the requests of a comparison with the former plan without a difference.

        None where that has changed since, and where a comparison with the plan would read other columns.
        """
        context = self._context
        record = context.record
        if record is None or not is_whole(former):
            return None
        read = record.recorded(OVN_NORTHBOUND, record.key(former["digest"], context.node, self._owner))
        # Malformed content raises any of these.
        try:
            if read is None or not _covers(read["requests"], self._rows):
                return None
            self._requests = read["requests"]
            return read_again(remote, read, _READ_TIMEOUT)
        except (KeyError, TypeError, ValueError, AttributeError):
            return None

    def _written(self, client) -> dict[str, frozenset[str]]:
        """Return by table the uuids of the rows that are compared, and of those that are deleted."""
        schema, identity = schema_of(client.get_schema(OVN_NORTHBOUND)), Identity(self._owner)
        wanted = {(row.table, row.key) for row in self._rows}
        compared = self._scope.only or ()
        rows = [row for row in self._rows if (row.table, row.key) in compared]
        rows += [row for row in self._scope.former or () if (row.table, row.key) not in wanted]
        found: dict[str, set[str]] = {}
        for row in rows:
            found.setdefault(row.table, set()).add(identity.uuid_of(schema.tables[row.table], row))
        return {table: frozenset(uuids) for table, uuids in found.items()}


def _covers(requests: list, rows: list[Row]) -> bool:
    """Whether requests read all columns that the rows have."""
    read: dict[str, set[str]] = {}
    for method, parameters in requests:
        for operation in parameters[1:] if method == "transact" else ():
            if operation["op"] == "select":
                read.setdefault(operation["table"], set()).update(operation["columns"])
    held = ((row.parent.table, row.parent.column) for row in rows if row.parent)
    return all(row.columns.keys() <= read.get(row.table, set()) for row in rows) and all(
        column in read.get(table, ()) for table, column in held
    )


def _differing(former: dict, plan: dict, node: str) -> tuple[list[Row], Scope] | None:
    """Return the rows that differ, and the scope that is compared, without networks where none differs; None: unknown.

    The digest of a plan of thousands of endpoints takes longer than all else here, so an edited file is not found by
    it, but by what its content raises; `_recorded` looks.
    """
    try:
        networks = changed_networks(former, plan, node)
        if networks is None or len(networks) > _MOST_NETWORKS:
            return None
        before = render_northbound(former, node, networks) if networks else []
    except (KeyError, IndexError, TypeError, ValueError, AttributeError):
        return None
    if not networks:
        return [], Scope(networks=frozenset())
    after = render_northbound(plan, node, networks)
    # What is common to all networks is written before them, by the comparison.
    if [row for row in before if not row.network] != [row for row in after if not row.network]:
        return None
    return narrowed(before, after, northbound.TABLES)
