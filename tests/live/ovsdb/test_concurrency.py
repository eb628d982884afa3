# SPDX-License-Identifier: Apache-2.0
"""Several engines and a foreign writer at once: no duplicates, no lost members, all converge."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.protocol.client import Conflict, OvsdbError
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.reconcile import reconcile

from .network import DATABASE, OWNER, actions, changed, converge, rows

WORKERS = 4
NAMES = [f"n{number}" for number in range(30)]


def at_once(*jobs):
    """Run functions at the same time and return their results; an error of one is an error of the test."""
    barrier = threading.Barrier(len(jobs))

    def run(job):
        barrier.wait()
        return job()

    with ThreadPoolExecutor(len(jobs)) as pool:
        return [future.result() for future in [pool.submit(run, job) for job in jobs]]


def test_creators_of_the_same_rows(northbound):
    desired = rows(*NAMES)
    outcomes = at_once(*[lambda: converge(northbound, desired)] * WORKERS)
    assert sum(outcome.summary()["create"] for outcome in outcomes) == len(desired)
    assert len(northbound.rows("Logical_Switch")) == len(NAMES)
    assert len(northbound.rows("Logical_Switch_Port")) == 2 * len(NAMES)
    assert not converge(northbound, desired).changed


def test_editors_and_a_foreign_writer(northbound):
    converge(northbound, rows(*NAMES))
    desired = rows(*NAMES, mtu="9000")
    done = threading.Event()

    def foreign():
        """Attach ports to every switch while the engines work."""
        made = 0
        with northbound.client() as client:
            switches = client.transact(
                DATABASE, [{"op": "select", "table": "Logical_Switch", "where": [], "columns": ["_uuid"]}]
            )[0]["rows"]
            while not done.is_set() or made < len(switches):
                where = [["_uuid", "==", switches[made % len(switches)]["_uuid"]]]
                client.transact(
                    DATABASE,
                    [
                        {"op": "insert", "table": "Logical_Switch_Port", "uuid-name": "p", "row": {"name": f"f{made}"}},
                        {
                            "op": "mutate",
                            "table": "Logical_Switch",
                            "where": where,
                            "mutations": [["ports", "insert", ["set", [["named-uuid", "p"]]]]],
                        },
                    ],
                )
                made += 1
        return made

    def engines():
        try:
            return at_once(*[lambda: converge(northbound, desired)] * WORKERS)
        finally:
            done.set()

    made, outcomes = at_once(foreign, engines)
    names = {row["name"] for row in northbound.rows("Logical_Switch_Port", "name")}
    assert {f"f{number}" for number in range(made)} <= names
    assert len(names) == 2 * len(NAMES) + made
    assert sum(outcome.summary()["update"] for outcome in outcomes) == len(NAMES)
    assert not converge(northbound, desired).changed


class Interfering:
    """A client before whose every write another client changes what was read."""

    def __init__(self, client, interfere, times):
        self._client, self._interfere, self._times = client, interfere, times

    def __getattr__(self, name):
        return getattr(self._client, name)

    def pipeline(self, database, transactions):
        """Interfere, then write."""
        if self._times:
            self._times -= 1
            self._interfere(self._times)
        return self._client.pipeline(database, transactions)


@pytest.mark.parametrize(("times", "arrives"), [(6, True), (10_000, False)])
def test_concurrent_change_of_read_rows(northbound, times, arrives):
    converge(northbound, rows("A", "B"))

    def interfere(number):
        where = [["external_ids", "includes", ["map", [["heddle/key", "A_acl"]]]]]
        northbound.transact({"op": "update", "table": "ACL", "where": where, "row": {"priority": number % 1000}})

    desired = changed(rows("A", "B"), "ACL", "A_acl", priority=2000)
    with northbound.client() as client:
        interfering = Interfering(client, interfere, times)
        options = {"owner": "test"}
        if arrives:
            outcome = reconcile(interfering, DATABASE, desired, **options)
            assert actions(outcome) == ["update ACL A_acl"]
            assert not converge(northbound, desired).changed
        else:
            with pytest.raises(Conflict):
                reconcile(interfering, DATABASE, desired, **options)


class Between:
    """A client that lets another client write before one table is read, once the others' rows have been read."""

    def __init__(self, client, table, write):
        self._client, self._table, self._write = client, table, write

    def __getattr__(self, name):
        return getattr(self._client, name)

    def start(self, database, operations):
        """Delay the read of that table."""
        if self._write and operations[0]["table"] == self._table and operations[0]["op"] == "select":
            return operations
        return self._client.start(database, operations)

    def finish(self, started):
        """Read it now, after the other's write."""
        if isinstance(started, list):
            self._write()
            self._write = None
            started = self._client.start(DATABASE, started)
        return self._client.finish(started)


@pytest.mark.parametrize("appears", [True, False])
def test_member_changes_between_reads_of_two_tables(northbound, appears):
    """Ports are read before the switches that hold them."""
    without = [row for row in rows("A") if row.key != "A_a"]
    converge(northbound, without if appears else rows("A"))
    theirs = rows("A") if appears else without
    desired = changed(rows("A"), "ACL", "A_acl", priority=7)
    with northbound.client() as client:
        between = Between(client, "Logical_Switch", lambda: converge(northbound, theirs))
        reconcile(between, DATABASE, desired, owner=OWNER)
    assert not converge(northbound, desired).changed
    assert {row["name"] for row in northbound.rows("Logical_Switch_Port", "name")} == {"A_a", "A_r"}


def test_error_names_operation_and_table(northbound):
    with northbound.client() as client, pytest.raises(OvsdbError) as caught:
        client.transact(
            DATABASE,
            [
                {"op": "insert", "table": "Logical_Switch", "row": {"name": "x"}},
                {"op": "insert", "table": "Nonsense", "row": {}},
            ],
        )
    assert (caught.value.index, caught.value.table) == (1, "Nonsense")
    assert "operation 1 (insert Nonsense)" in str(caught.value)
    assert northbound.dump() == {}
