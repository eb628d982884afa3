# SPDX-License-Identifier: Apache-2.0
"""Reconciles an OVSDB database with the desired rows.

    with Client("unix:/run/ovn/ovnnb_db.sock") as client:
        outcome = reconcile(client, "OVN_Northbound", rows, owner="lab", scope=Scope(), write=True)

Read, compare, then write the difference through `_write`, the only function that writes. Networks are written up to
five per transaction (the switch's ports 200) with two transactions outstanding; a transaction whose premises have
changed is planned again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import random
import time

from ..common.change import Outcome
from ..common.databases import OPEN_VSWITCH
from ..common.errors import InvalidRows
from .current import Current
from .desired import DesiredRow
from .foreign import foreign_rows
from .identity import Identity
from .protocol.client import Conflict, Duplicate, OvsdbError
from .protocol.schema import Kind, schema_of
from .transaction import PORTS_TOGETHER, TransactionPlan
from .values import Keys, Parent, Ref, Row, Scope

__all__ = ["InvalidRows", "Keys", "Parent", "Ref", "Row", "Scope", "reconcile"]

ATTEMPTS = 10


def reconcile(client, database, rows, *, owner, scope=None, write=True, report_foreign=False, closing=None):
    """Make the owner's rows in `database` equal to `rows`; return the `Outcome`.

    Without `scope`, rows that are not desired are deleted in the tables that occur in `rows`. With `write=False` the
    outcome lists what would be done. With `report_foreign`, it lists unmarked rows in the scope. `closing` has
    `operations` that become part of the last transaction that writes, so that readers see both at once, and
    `committed(results)`, which is called with their results; without a change neither happens. Its `planned`, if it has
    one, is called before each transaction is sent, with the changes of that.

    With `write`, a network whose rows the database cannot hold or rejects stays as it is, all others are written, and
    the outcome's `refused` has the reason.

    Errors: `InvalidRows` (nothing was written), `Conflict` when concurrent writers kept changing the same rows,
    `OvsdbError` when the server rejected rows common to all networks; what was committed before stays, and a second run
    continues from there.
    """
    rows, refused = list(rows), {}
    tables = frozenset(row.table for row in rows)
    while True:
        # All objects of a run are released inside, before the collector runs.
        with _collector_paused():
            try:
                outcome = _reconcile(client, database, rows, Identity(owner), scope, write, report_foreign, closing)
                return outcome + Outcome(refused=tuple(refused.items()))
            except InvalidRows as error:
                if not write or not all(problem.network for problem in error.problems):
                    raise
                for problem in error.problems:
                    refused.setdefault(problem.network, f"{database}: {problem}")
        # Rejected networks are removed from the rows, so each round has fewer networks.
        rows = [row for row in rows if row.network not in refused]
        scope = dataclasses.replace(scope or Scope(tables), without=frozenset(refused))


def _reconcile(client, database, rows, identity, scope, write, report_foreign, closing):
    schema = schema_of(client.get_schema(database))
    changes, retry_candidates, refused, failed, alone = [], set(), None, {}, False
    narrowed = scope
    for attempt in range(ATTEMPTS):
        plan, current, desired = _plan(client, schema, identity, rows, narrowed, retry_candidates)
        if not write:
            changes = plan.changes()
            break
        failures = _apply(client, database, plan, changes, alone, closing)
        left, refused = _keep_going(failures, refused, attempt, failed)
        if not failures:
            break
        failures = left
        alone = alone or any(failure.fatal for failure in failures)
        retry_candidates |= {name for failure in failures for name in failure.inserts}
        networks = _networks_left(failures, narrowed)
        narrowed = dataclasses.replace(_retried(scope), tables=current.purged, networks=networks)
        time.sleep(random.uniform(0, 0.01 * 2 ** min(attempt, 5)))
    foreign = foreign_rows(client, schema, desired, current) if report_foreign else ()
    return Outcome(tuple(changes), tuple(foreign), tuple(failed.items()))


class _Failure:
    """A transaction that was not committed: its premises did not hold, or (`fatal`) the server rejects it as such."""

    def __init__(self, error, units, operations, *, fatal=False, everything=False):
        self.fatal = fatal
        self.error, self.operations, self.everything = error, operations, everything
        self.networks = frozenset().union(*(unit.networks for unit in units))
        self.inserts = [(wanted.row.table, wanted.row.key) for unit in units for wanted in unit.inserts]


def _plan(client, schema, identity, rows, scope, retry_candidates):
    """Read and compare. The server reads while the desired rows are encoded."""
    desired = DesiredRow(schema, identity, rows)
    current = Current(client, schema, identity, desired, scope, retry_candidates)
    desired.check()
    current.locate()
    plan = TransactionPlan(schema, identity, desired, current, *((scope.networks, scope.only) if scope else ()))
    _release_orphans(client, schema, plan)
    return plan, current, desired


def _release_orphans(client, schema, plan):
    """Find what keeps undesired rows alive and is not released by the plan: references from foreign rows."""
    questions = [
        (left, holder, column.name)
        for left in plan.orphans()
        for holder, column in schema.holders[left.table]
        if column.kind is not Kind.MAP
    ]
    if not questions:
        return
    answers = client.transact(
        schema.name,
        [
            {
                "op": "select",
                "table": holder,
                "columns": ["_uuid"],
                "where": [[column, "includes", ["set", [["uuid", left.uuid]]]]],
            }
            for left, holder, column in questions
        ],
    )
    for (left, holder, column), answer in zip(questions, answers, strict=True):
        for row in answer["rows"]:
            plan.release(left, holder, column, row["_uuid"][1])


def _apply(client, database, plan, changes, alone, closing):
    """Write all units: the common one, then networks, then common deletions. Adds to `changes` what was committed.

    With `alone`, each network has a transaction of its own.
    """
    together = PORTS_TOGETHER if database == OPEN_VSWITCH else ()
    networks = plan.chunks(1) if alone else plan.chunks(*together)
    stages = [
        [units for units in stage if plan.has_operations(units)] for stage in ([plan.first()], networks, [plan.last()])
    ]
    for number, stage in enumerate(stages):
        failures = _write(client, database, plan, stage, changes, closing, last=not any(stages[number + 1 :]))
        if failures:
            failures[0].everything = number == 0
            return failures
    return []


def _write(client, database, plan, chunks, changes, closing, *, last):
    """The write gate: the only place where reconciled rows are written. Returns the conflicts as `_Failure`s."""
    sent = []

    def transactions():
        for units in chunks:
            operations = [operation for unit in units for operation in unit.operations(plan)]
            sent.append((units, operations))
            if closing and closing.planned:
                closing.planned([change for unit in units for change in unit.all_changes(plan)])
            yield [*operations, *closing.operations] if closes(units) else operations

    def closes(units):
        return closing and last and units is chunks[-1]

    failures = []
    for position, result in enumerate(client.pipeline(database, transactions())):
        units, operations = sent[position]
        if isinstance(result, Conflict):
            failures.append(_Failure(result, units, operations))
        elif isinstance(result, OvsdbError):
            failures.append(_Failure(_named(result, plan, operations), units, operations, fatal=True))
        else:
            changes += [change for unit in units for change in unit.all_changes(plan)]
            if closes(units):
                closing.committed(result[len(operations) :])
        sent[position] = None
    return failures


def _named(error, plan, operations):
    """The same error with the name of the row concerned."""
    if error.index is None:
        return error
    operation = operations[error.index]
    details = f"{error.details} (row {plan.name_of(operation)})"
    return type(error)(error.database, error.error, details, error.index, operation)


def _keep_going(failures, refused, attempt, failed):
    """Return the failures to retry, and the duplicates among them.

    A retry is useless when attempts are exhausted, when the server rejects a transaction as such, or an equal insert
    twice. For one network, that goes into `failed`; for several, each is retried alone; for common rows, it is raised.
    """
    seen = [failure.operations for failure in failures if isinstance(failure.error, Duplicate)]
    again = []
    for failure in failures:
        stuck = isinstance(failure.error, Duplicate) and refused and failure.operations in refused
        if not (stuck or failure.fatal or attempt == ATTEMPTS - 1):
            again.append(failure)
        elif "" in failure.networks or attempt == ATTEMPTS - 1:
            raise failure.error
        elif len(failure.networks) == 1:
            failed.update(dict.fromkeys(failure.networks, str(failure.error)))
        else:
            failure.fatal = True
            again.append(failure)
    return again, seen


def _retried(scope):
    """The scope whose networks are planned again: without networks of its own it does not know their former rows."""
    known = scope is not None and scope.networks is not None
    return scope if known else Scope(without=scope.without if scope else frozenset())


def _networks_left(failures, scope):
    """The units to plan again; the common unit is always among them, as its deletions come last."""
    if any(failure.everything for failure in failures):
        return scope.networks if scope else None
    left = frozenset({""}).union(*(failure.networks for failure in failures))
    return left if scope is None or scope.networks is None else left & scope.networks


@contextlib.contextmanager
def _collector_paused():
    """Disable the cyclic collector: a run makes many objects that live until its end, and collecting costs as much."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
