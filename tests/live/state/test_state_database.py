# SPDX-License-Identifier: Apache-2.0
"""The modules `resource`, `resource_info` and `plan` against a real state database."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.serialization import unpack
from ansible_collections.heddle.ovn.plugins.module_utils.controllers.admission.apply_manifests import store
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.protocol.client import Duplicate
from ansible_collections.heddle.ovn.plugins.module_utils.store.database import read
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
    assert written["plan"] == again["plan"]
    assert (announced["changed"], written["changed"], again["changed"]) == (True, True, False)
    plan = unpack(written["plan"])
    assert set(plan["networks"]) == {"default", "red_net"}
    assert (plan["digest"], plan["revision"]) == (written["digest"], written["revision"])


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


def test_database_index_rejects_duplicate_values(database):
    row = {"pool": "network-id", "owner": "red_net", "value": "1"}
    database.transact({"op": "insert", "table": "Allocation", "row": row})
    for clash in ({**row, "owner": "blue_net"}, {**row, "value": "2"}):
        with database.client() as client, pytest.raises(Duplicate):
            client.transact("Heddle", [{"op": "insert", "table": "Allocation", "row": clash}])
