# SPDX-License-Identifier: Apache-2.0
"""The modules `resource`, `resource_info` and `plan` against a real state database."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.serialization import canonical, unpack
from ansible_collections.heddle.ovn.plugins.module_utils.controllers.admission.apply_manifests import store
from ansible_collections.heddle.ovn.plugins.module_utils.store.database import (
    DuplicateValue,
    SchemaTooOld,
    operations,
    read,
)
from tests.live.state.conftest import SCHEMA
from tests.live.state.module_run import intent, run
from tests.pipeline import decide, layer2, namespace, workload

RED = namespace("red") + layer2("red", "net", "10.0.0.0/24") + workload("red", "w1", "node1")
BLUE = namespace("blue") + layer2("blue", "net", "10.0.0.0/24") + workload("blue", "w1", "node2")


def test_create_repeat_change_remove(database):
    empty = database.dump()
    assert run("resource", check=True, **intent(RED, database))["changed"]
    assert database.dump() == empty

    created = run("resource", **intent(RED, database))
    assert "object UserDefinedNetwork/red/net" in created["differences"]
    stored = database.dump()
    again = run("resource", **intent(RED, database))
    assert (again["changed"], again["revision"]) == (False, created["revision"])
    assert database.dump() == stored

    changed = run("resource", **intent(RED + workload("red", "w2", "node2"), database))
    assert "allocation address/red_net/10.0.0.0/24 red/w2" in changed["differences"]
    assert changed["revision"] == created["revision"] + 1

    run("resource", **intent("", database))
    with database.client() as client:
        left = read(client)
    assert {entry.kind for entry in left.objects.values()} == {"Node"}
    assert not [pool for pool, held in left.allocations.items() if "red" in pool and held]


def test_the_plan_in_check_mode_is_the_plan_after_the_change(database):
    announced, written, again = (
        run("resource", check=check, **intent(RED, database)) for check in (True, False, False)
    )
    assert announced["digest"] == written["digest"]
    assert written["host_plans"] == again["host_plans"] != {}
    assert (announced["changed"], written["changed"], again["changed"]) == (True, True, False)
    plans = [unpack(text) for text in written["host_plans"].values()]
    assert {name for plan in plans for name in plan["networks"]} == {"default", "red_net"}
    assert {plan["revision"] for plan in plans} == {written["revision"]}


def test_resource_info_shows_ids_keys_and_manifests(database):
    run("resource", **intent(RED, database))
    info = run("resource_info", socket=database.remote)
    assert info["networks"]["red_net"]["tunnel_keys"] == [16711684, 16715779]
    assert info["workloads"]["red/w1"]["interfaces"][1]["addresses"] == ["10.0.0.3/24"]
    assert info["objects"]["UserDefinedNetwork/red/net"]["spec"]["topology"] == "Layer2"


def test_all_problems_are_reported_and_nothing_is_written(database):
    run("resource", **intent(RED, database))
    stored = database.dump()
    failed = run("resource", **intent(RED + workload("red", "w2", "mars") + workload("red", "w3", "venus"), database))
    assert "2 problem(s), nothing was written" in failed["msg"]
    assert "mars" in failed["msg"]
    assert "venus" in failed["msg"]
    assert database.dump() == stored


def test_missing_server_is_named(tmp_path):
    remote = f"unix:{tmp_path / 'none.sock'}"
    assert "Is the service running?" in run("resource_info", socket=remote)["msg"]


def test_concurrent_writers_get_unique_values(database):
    names = [f"tenant{number}" for number in range(8)]

    def apply(name):
        text = namespace(name) + layer2(name, "net", "10.0.0.0/24") + workload(name, "w", "node1")

        def admitted(before):
            after, problems = decide(text, before)
            for key, entry in after.objects.items():
                if key not in before.objects and entry.kind != "Node":
                    after.objects[key] = replace(entry, manifest_set=name)
            kept = {key: entry for key, entry in before.objects.items() if key not in after.objects}
            assert not kept
            return after, problems

        with database.client() as client:
            store(client, admitted, write=True)

    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(apply, names))
    with database.client() as client:
        snapshot = read(client)
    assert snapshot.revision == len(names)
    assert sorted(snapshot.allocations["network-id"].values(), key=int) == [str(number) for number in range(1, 9)]
    assert len(set(snapshot.allocations["tunnel-key"].values())) == len(names)


def test_one_value_for_two_owners_is_not_written(database):
    with database.client() as client:
        store(client, lambda before: decide(RED + BLUE, before), write=True)
        before = read(client)
        after, _problems = decide(RED, before)
        after.allocations["network-id"] = {"red_net": "1", "blue_net": "1"}
        with pytest.raises(DuplicateValue, match="pool network-id would have one value for two owners"):
            operations(before, after)


def make_earlier(database):
    """Store a state as release 0.4.0 did: a row for each value."""
    with database.client() as client:
        snapshot = read(client)
    values = [
        {"pool": pool, "owner": owner, "value": value}
        for pool, held in snapshot.allocations.items()
        for owner, value in held.items()
    ]
    database.transact(
        {"op": "delete", "table": "Pool", "where": []},
        {"op": "update", "table": "Cluster", "where": [], "row": {"settings": canonical(snapshot.settings)}},
        *({"op": "insert", "table": "Allocation", "row": row} for row in values),
    )


def test_values_that_an_earlier_release_stored_are_kept_and_moved_by_the_first_change(database):
    with database.client() as client:
        store(client, lambda before: decide(RED + BLUE, before), write=True)
        written = read(client)
    make_earlier(database)
    with database.client() as client:
        found = read(client)
        assert found == written
        before, after = store(client, lambda before: decide(RED + BLUE, before), write=True)
        # Without a change nothing is written.
        assert after.revision == before.revision
        assert not database.rows("Pool")
        store(client, lambda before: decide(RED, before), write=True)
        assert not database.rows("Allocation")
        left = read(client)
    assert left.allocations["network-id"] == {"red_net": written.allocations["network-id"]["red_net"]}
    assert {name for name, held in left.allocations.items() if held} == {row["name"] for row in database.rows("Pool")}
    kept = {pool: held for pool, held in written.allocations.items() if "blue" not in canonical(held) + pool}
    assert kept.items() <= left.allocations.items()
    # Release 0.4.0 would make all allocations anew; it cannot read the settings, and stops.
    with pytest.raises(ValueError, match="Expecting value"):
        json.loads(database.rows("Cluster")[0]["settings"])


def test_a_database_with_the_schema_of_an_earlier_release_is_read_and_not_written(serve, tools, tmp_path):
    schema = json.loads(SCHEMA.read_text())
    del schema["tables"]["Pool"]
    file = tmp_path / "earlier.ovsschema"
    file.write_text(json.dumps({**schema, "version": "1.0.0"}))
    earlier = serve("Heddle", file)
    earlier.transact(
        {"op": "insert", "table": "Cluster", "row": {"name": "lab", "revision": 3, "settings": canonical({})}},
        {"op": "insert", "table": "Allocation", "row": {"pool": "node-id", "owner": "node1", "value": "7"}},
    )
    with earlier.client() as client:
        assert read(client).allocations == {"node-id": {"node1": "7"}}
        # As the announcement of an upgrade and the backup before it.
        store(client, lambda before: decide(RED, before), write=False)
        with pytest.raises(SchemaTooOld, match=r"version 1.0.0, which lacks Pool: run heddle.ovn.install"):
            store(client, lambda before: decide(RED, before), write=True)
    tools.run("ovsdb-client", "convert", earlier.remote, str(SCHEMA))
    with earlier.client() as client:
        store(client, lambda before: decide(RED, before), write=True)
        assert read(client).allocations["node-id"]["node1"] == "7"
    assert not earlier.rows("Allocation")
