# SPDX-License-Identifier: Apache-2.0
"""The module `layer2_upgrade`, run by Ansible against a real state database: every step, twice, and cut off."""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.filter.layer2_upgrade_table import layer2_upgrade_table
from ansible_collections.heddle.ovn.plugins.module_utils.agent.module_runner import UserError
from ansible_collections.heddle.ovn.plugins.module_utils.common.serialization import unpack
from ansible_collections.heddle.ovn.plugins.module_utils.controllers.admission.apply_manifests import store
from ansible_collections.heddle.ovn.plugins.module_utils.operations.layer2_upgrade import STEPS, look_ahead, run_step
from tests.live.state.module_run import run
from tests.pipeline import decide, layer2, namespace, workload

RED = namespace("red") + layer2("red", "net", "10.0.0.0/24") + workload("red", "w1", "node1")
OLD = {"layer2_topology": "gateway-router"}


@pytest.fixture
def step(database):
    with database.client() as client:
        store(client, lambda before: decide(RED, before, settings=OLD), write=True)

    def take(name, *, write=True, nodes=(), topology="transit-router"):
        params = {"step": name, "nodes": list(nodes), "topology": topology}
        with database.client(read_only=not write) as client:
            return run_step(client, params, write=write)

    return take


def test_the_module_in_check_mode_and_for_real(step, database):
    before = database.dump()
    arguments = {"step": "drain", "nodes": ["node1"], "socket": database.remote}
    assert run("layer2_upgrade", check=True, **arguments)["changed"]
    assert database.dump() == before
    drained = run("layer2_upgrade", **arguments)
    assert [move["workload"] for move in drained["moved"]] == ["red/w1"]
    assert unpack(drained["document"])["workloads"]["red/w1"]["node"] == "node2"


@pytest.mark.parametrize("name", STEPS)
def test_an_empty_state_is_a_clear_error_of_every_step(database, name):
    params = {"step": name, "nodes": [], "topology": "transit-router"}
    with (
        database.client() as client,
        pytest.raises(UserError, match=r"is empty; run heddle\.ovn\.networks"),
    ):
        run_step(client, params, write=True)


def test_all_steps_and_repeated_steps_change_nothing(step, database):
    before = database.dump()
    assert step("drain", write=False, nodes=["node1"])["changed"]
    assert database.dump() == before
    for name in ("node1", "node2", "node3"):
        step("drain", nodes=[name])
        assert not step("drain", nodes=[name])["changed"]
        changed = step("change", nodes=[name])
        assert changed["changed"]
        assert unpack(changed["document"])["nodes"][name]["layer2_topology_version"] == "2.0"
        assert not step("change", nodes=[name])["changed"]
    assert look(database)["survey"]["batches"] == []
    assert step("clean_up")["changed"]
    assert not step("clean_up")["changed"]
    assert not look(database)["survey"]["open"]


def test_blockers_are_reported_and_nothing_is_written(step, database):
    before = database.dump()
    blocked = "node node1, network red_net, workload red/w1: is still on the node; drain the node first"
    with pytest.raises(UserError, match=blocked):
        step("change", nodes=["node1"])
    with pytest.raises(UserError, match="node node3: still has gateway routers on its Layer2 switches"):
        step("clean_up")
    assert database.dump() == before


def test_the_same_manifests_leave_a_drained_node_empty(step, database):
    drained = step("drain", nodes=["node1"])
    with database.client() as client:
        store(client, lambda before: decide(RED, before, settings=OLD), write=True)
    plan = unpack(look(database)["document"])
    assert plan["workloads"] == unpack(drained["document"])["workloads"]
    assert plan["workloads"]["red/w1"]["node"] != "node1"


def test_the_survey_as_a_table(step, database):
    lines = "\n".join(layer2_upgrade_table(look(database, "node1", "node9")["survey"]))
    assert "node1  gateway routers  1" in lines
    assert "red/w1    netns  red_net  node1  node2" in lines
    assert "node2  gateway routers  not now" in lines
    assert "node node9: is not a node of this cluster" in lines


def test_the_info_module_reports_and_writes_nothing(step, database):
    before = database.dump()
    found = run("layer2_upgrade_info", socket=database.remote, nodes=["node1"], ovn_versions={"node1": "24.03"})
    assert not found["changed"]
    assert database.dump() == before
    assert found["survey"]["batches"] == [["node1"]]
    assert [move["workload"] for move in found["drain"]["moves"]] == ["red/w1"]
    assert (found["drain"]["blockers"], found["forwards"]) == ([], True)
    assert found["blockers"] == ["node node1: its OVN 24.03 knows no transit routers; 25.03 is the first that does"]
    assert unpack(found["document"])["workloads"]["red/w1"]["node"] == "node1"


def look(database, *nodes, topology="transit-router"):
    params = {"nodes": list(nodes), "topology": topology, "serial": 1, "ovn_versions": {}}
    with database.client(read_only=True) as client:
        return look_ahead(client, params)


def test_the_survey_follows_the_direction(step, database):
    assert look(database)["drain"] == {"moves": [], "blockers": []}
    step("drain", nodes=["node1"])
    step("change", nodes=["node1"])
    assert look(database)["forwards"]
    step("drain", nodes=["node1"], topology="gateway-router")
    step("change", nodes=["node1"], topology="gateway-router")
    assert not look(database, topology="gateway-router")["forwards"]


def test_an_unknown_node_is_in_the_way_and_no_failure(step, database):
    (blocker,) = look(database, "elsewhere")["blockers"]
    assert "node elsewhere: is not a node of this cluster" in blocker


def test_without_a_state_database_there_is_nothing_to_do():
    found = look_ahead(None, {"nodes": ["node1"], "topology": "transit-router", "serial": 1, "ovn_versions": {}})
    assert "document" not in found
    assert found["survey"]["batches"] == []
