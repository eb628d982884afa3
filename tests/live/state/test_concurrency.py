# SPDX-License-Identifier: Apache-2.0
"""Many operators at once, each a process of its own, against one real state database."""

from __future__ import annotations

import json
import multiprocessing

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.databases import HEDDLE
from ansible_collections.heddle.ovn.plugins.module_utils.controllers.admission.apply_manifests import (
    ConflictError,
    store,
)
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.protocol.client import Client, Conflict
from ansible_collections.heddle.ovn.plugins.module_utils.store.database import operations, read
from tests.pipeline import decide, layer2, layer3, namespace, workload

OPERATORS = 8
ROUNDS = 2
FORK = multiprocessing.get_context("fork")


POOL = (
    "---\napiVersion: coil.cybozu.com/v2\nkind: AddressPool\nmetadata: {name: shared}\n"
    "spec: {blockSizeBits: 2, subnets: [{ipv4: 10.77.0.0/24}]}\n"
)


def pooled(name):
    """A namespace whose workloads have their addresses of the shared pool."""
    return namespace(name, primary=False).rstrip() + "\n  annotations: {coil.cybozu.com/pool: shared}\n"


def tenant(name, *workloads):
    return (
        pooled(f"{name}-pool") + "".join(workload(f"{name}-pool", one, "node3") for one in workloads) +
        namespace(name) + layer2(name, "flat", "10.0.0.0/24", "fd00:10::/64")
        + namespace(f"{name}-routed") + layer3(f"{name}-routed", "net", "10.128.0.0/16", 24)
        + "".join(workload(name, one, "node1") + workload(f"{name}-routed", one, "node2") for one in workloads)
    )  # fmt: skip


def operate(remote, manifest_set, texts, start, reported):
    """Apply one text after the other as one manifest set; puts the result of each into `reported`."""
    with Client(remote, timeout=120) as client:
        start.wait()
        for text in texts:
            attempts = []

            def admitted(before, text=text, attempts=attempts):
                attempts.append(before.revision)
                return decide(text, before, manifest_set=manifest_set)

            try:
                before, after = store(client, admitted, write=True)
                reported.put((manifest_set, len(attempts), before != after, None))
            except Exception as error:
                reported.put((manifest_set, len(attempts), False, repr(error)))


def run_at_once(database, plans):
    """Run the operators, `(manifest set, texts)`, and return what they reported."""
    start, reported = FORK.Barrier(len(plans)), FORK.Queue()
    processes = [FORK.Process(target=operate, args=(database.remote, *plan, start, reported)) for plan in plans]
    for process in processes:
        process.start()
    results = [reported.get(timeout=120) for plan in plans for _text in plan[1]]
    for process in processes:
        process.join()
    return results


def check_consistent(snapshot):
    for pool, held in snapshot.allocations.items():
        assert len(set(held.values())) == len(held), f"{pool} gave a value twice"
    networks = {entry.key for entry in snapshot.objects.values() if entry.kind == "UserDefinedNetwork"}
    assert len(snapshot.allocations["network-id"]) == len(networks)


def test_concurrent_different_manifests_are_all_stored_without_duplicate_values(database):
    plans = [
        (f"set{number}", [tenant(f"t{number}", *(f"w{one}" for one in range(count + 1))) for count in range(ROUNDS)])
        for number in range(OPERATORS)
    ]
    with database.client() as client:
        store(client, lambda before: decide(POOL, before, manifest_set="pools"), write=True)
    results = run_at_once(database, plans)
    assert [error for *_rest, error in results if error] == []
    assert all(changed for _set, _attempts, changed, _error in results)
    with database.client() as client:
        snapshot = read(client)
    check_consistent(snapshot)
    assert snapshot.revision == OPERATORS * ROUNDS + 1
    # One block for each four workloads: none is lost, none is given twice.
    assert len(snapshot.allocations["pool-address/shared"]) == OPERATORS * ROUNDS
    assert len(snapshot.allocations["address-block/shared"]) == OPERATORS * ROUNDS / 4
    # At least one was refused and retried, or this shows nothing.
    assert sum(attempts for _set, attempts, _changed, _error in results) > OPERATORS * ROUNDS
    for manifest_set, texts in plans:
        again, problems = decide(texts[-1], snapshot, manifest_set=manifest_set)
        assert not problems
        assert operations(snapshot, again) == []


def test_concurrent_equal_manifests_are_written_once(database):
    text = tenant("same", "w1", "w2")
    results = run_at_once(database, [("shared", [text])] * OPERATORS)
    assert [error for *_rest, error in results if error] == []
    assert sum(changed for _set, _attempts, changed, _error in results) == 1
    with database.client() as client:
        snapshot = read(client)
    assert snapshot.revision == 1
    check_consistent(snapshot)


def test_concurrent_writers_of_one_set_leave_the_state_of_one(database):
    texts = [tenant("one", *(f"w{number}-{count}" for count in range(number + 1))) for number in range(6)]
    results = run_at_once(database, [("shared", [text]) for text in texts])
    assert [error for *_rest, error in results if error] == []
    with database.client() as client:
        snapshot = read(client)
    check_consistent(snapshot)
    left = [text for text in texts if decide(text, snapshot, manifest_set="shared")[0] == snapshot]
    assert len(left) == 1


def test_repeated_conflicts_end_with_an_error_and_no_write(database):
    others = iter(range(1000))

    def overtaken(before):
        # Another client writes between reading and writing, each time.
        with database.client() as other:
            store(other, lambda now: decide(namespace(f"other{next(others)}"), now, manifest_set="others"), write=True)
        return decide(tenant("slow", "w"), before, manifest_set="slow")

    with (
        database.client() as client,
        pytest.raises(ConflictError, match="the state was changed by another client each time"),
    ):
        store(client, overtaken, write=True, patience=0.3)
    with database.client() as client:
        assert not [key for key in read(client).objects if "slow" in key]
    assert next(others) > 1


@pytest.mark.parametrize(
    ("table", "change"),
    [
        ("Object", {"manifest": "{}"}),
        ("Pool", {"held": '{"a_flat":"4000"}'}),
    ],
)
def test_row_changed_by_hand_is_read_again(database, table, change):
    with database.client() as client:
        store(client, lambda before: decide(tenant("a", "w"), before), write=True)
        before = read(client)
        after, _problems = decide("", before)
        where = [["name", "==", "flat" if table == "Object" else "network-id"]]
        database.transact({"op": "update", "table": table, "where": where, "row": change})
        with pytest.raises(Conflict, match=rf"wait {table}\): timed out"):
            client.transact(HEDDLE, operations(before, after))
        assert read(client).revision == before.revision


def test_a_transaction_names_its_rows_by_uuid(database):
    """A condition on content makes the server read the whole table for each row."""
    with database.client() as client:
        store(client, lambda before: decide(tenant("a", "w1", "w2"), before), write=True)
        before = read(client)
        after, _problems = decide(tenant("a", "w2", "w3"), before)
    for operation in operations(before, after):
        conditions = operation.get("where", [])
        assert operation["table"] == "Cluster" or [column for column, *_rest in conditions] in ([], ["_uuid"]), (
            json.dumps(operation)
        )
