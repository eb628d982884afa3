# SPDX-License-Identifier: Apache-2.0
"""Status, deletion and readiness through the modules, against a real state database."""

import json

from ansible_collections.heddle.ovn.plugins.module_utils.common.serialization import unpack
from ansible_collections.heddle.ovn.plugins.module_utils.store.database import read
from tests.live.state.module_run import intent, run
from tests.pipeline import THREE_NODES, layer2, namespace, workload

SPACE = namespace("red")
RED = SPACE + layer2("red", "net", "10.0.0.0/24") + workload("red", "w1", "node1")
NET = "UserDefinedNetwork/red/net"
GOOD = {"drift": [], "problems": []}


def conditions(info, key=NET):
    return {one["type"]: one["status"] for one in info["objects"][key]["status"]["conditions"]}


def test_network_in_use_is_deleted_with_its_last_user(database):
    run("resource", **intent("", database))
    empty = run("resource_info", socket=database.remote)
    run("resource", **intent(RED, database))

    without = intent(SPACE + workload("red", "w1", "node1"), database)
    announced = run("resource", check=True, **without)
    assert "network in use by the following pods: [red/w1]" in announced["table"]
    waiting = run("resource", **without)
    assert "delete UserDefinedNetwork/red/net when its last user is gone" in waiting["changes"]
    stored = database.dump()
    assert not run("resource", **without)["changed"]
    assert database.dump() == stored
    info = run("resource_info", socket=database.remote)
    assert "deletionTimestamp" in info["objects"][NET]["metadata"]
    assert info["users"]["red_net"] == ["red/w1"]

    again = run("resource", **intent(RED, database))
    assert "is being deleted since" in again["msg"]
    assert database.dump() == stored
    run("resource", **intent("", database))
    left = run("resource_info", socket=database.remote)
    assert (left["objects"], left["digest"]) == (empty["objects"], empty["digest"])


def test_readiness_is_written_once_and_kept_by_the_next_run(database):
    run("resource", **intent(RED, database))
    info = run("resource_info", socket=database.remote)
    assert conditions(info)["NetworkReady"] == "Unknown"
    hosts = {name: {**GOOD, "digest": digest} for name, digest in info["host_plans"].items()}
    arguments = {"socket": database.remote, "hosts": hosts}

    before = database.dump()
    assert run("readiness", check=True, **arguments)["changed"]
    assert database.dump() == before
    reported = run("readiness", **arguments)
    assert f"status {NET}: NetworkReady Unknown -> True (AllHostsReady)" in reported["changes"]
    stored = database.dump()
    assert not run("readiness", **arguments)["changed"]
    assert not run("resource", **intent(RED, database))["changed"]
    assert database.dump() == stored

    hosts["node1"] = {}
    assert run("readiness", **arguments)["changed"]
    info = run("resource_info", socket=database.remote)
    assert info["objects"][NET]["status"]["hosts"] == {"node1": "no answer"}


def test_admission_records_readiness_where_no_host_has_anything_to_apply(database):
    run("resource", **intent(RED, database))
    info = run("resource_info", socket=database.remote)
    ready = {name: {**GOOD, "digest": digest} for name, digest in info["host_plans"].items()}
    stored = database.dump()
    one = next(iter(ready))
    others = [
        {}, {**ready, one: {}}, {**ready, one: {**GOOD, "digest": "other"}},
        {**ready, one: {"failed": True, "msg": ""}}, {**ready, one: {**ready[one], "drift": [{"network": "red_net"}]}},
        {name: {"asked": False} for name in ready},
    ]  # fmt: skip
    pending = [list(ready), [one], [one], [one], [one], []]
    for hosts, waiting in zip(others, pending, strict=True):
        found = run("resource", **intent(RED, database, hosts=hosts))
        assert "recorded" not in found and found["pending"] == waiting
        parts = {name: unpack(text) for name, text in found["host_plans"].items()}
        assert [(name, part["digest"]) for name, part in parts.items()] == [
            (name, ready[name]["digest"]) for name in waiting
        ]
        assert {part["revision"] for part in parts.values()} <= {found["revision"]}
    assert "recorded" not in run("resource", check=True, **intent(RED, database, hosts=ready))
    assert database.dump() == stored
    found = run("resource", **intent(RED, database, hosts={**ready, one: {"asked": False}}))
    assert "attention" in found["recorded"] and "files" in found["recorded"]
    found = run("resource", **intent(RED, database, hosts=ready))
    assert found["pending"] == []
    # A run that only recorded readiness changed the state, and a second one does not.
    assert found["changed"]
    assert not run("resource", **intent(RED, database, hosts=ready))["changed"]
    assert f"status {NET}: NetworkReady" in found["recorded"]["changes"]
    assert conditions(run("resource_info", socket=database.remote))["NetworkReady"] == "True"
    # A change is for the hosts first, and only for those that it concerns.
    changed = run("resource", **intent(RED + workload("red", "w2", "node1"), database, hosts=ready))
    assert "recorded" not in changed and changed["pending"] == list(changed["host_plans"]) == ["node1"]


def test_definitions_are_kept_as_objects_with_their_ids(database):
    run("resource", **intent(RED, database))
    with database.client() as client:
        entry = read(client).objects["NetworkAttachmentDefinition/red/net"]
    metadata = entry.manifest["metadata"]
    assert metadata["annotations"]["k8s.ovn.org/tunnel-keys"] == "[16711684,16715779]"
    assert json.loads(entry.manifest["spec"]["config"])["netAttachDefName"] == "red/net"
    info = run("resource_info", socket=database.remote)
    shown = info["objects"]["NetworkAttachmentDefinition/red/net"]
    assert shown["metadata"]["ownerReferences"][0]["uid"] == info["objects"][NET]["metadata"]["uid"]


def test_a_run_that_another_one_has_overtaken_is_noticed(database):
    first = run("resource", **intent(RED, database))
    second = run("resource", **intent(RED + workload("red", "w2", "node2"), database))
    found = {
        name: run("readiness", socket=database.remote, hosts={}, digest=one["digest"], check=True)["overtaken"]
        for name, one in {"first": first, "second": second}.items()
    }
    assert found == {"first": True, "second": False}


def test_a_state_that_was_lost_is_not_replaced_by_an_empty_one(database):
    """Hosts would get other ids and addresses than they have."""
    arguments = intent(RED, database)

    def with_plans(deployment: str) -> dict:
        kept = {"deployment": deployment, "revision": 500}
        return {name: {**node, "kept_plan": kept if name != "node3" else None} for name, node in THREE_NODES.items()}

    stored = database.dump()
    refused = run("resource", **{**arguments, "nodes": with_plans("heddle")})
    assert "the state database is empty, and hosts have plans of deployment heddle: node1, node2;" in refused["msg"]
    assert database.dump() == stored
    assert run("resource", **{**arguments, "nodes": with_plans("another")})["changed"]


def test_a_host_with_a_plan_of_a_state_that_was_replaced_by_a_backup_takes_the_next_one(database):
    """It did not answer while the backup was restored, and refuses plans of earlier revisions than its own."""
    run("resource", **intent(RED, database))
    kept = {"deployment": "heddle", "revision": 500}
    arguments = intent(RED, database)
    arguments["nodes"] = {**THREE_NODES, "node2": {**THREE_NODES["node2"], "kept_plan": kept}}
    stored = database.dump()
    announced = run("resource", check=True, **arguments)
    assert announced["changed"]
    assert database.dump() == stored
    found = run("resource", **arguments)
    assert found["changed"]
    assert found["revision"] == unpack(found["host_plans"]["node2"])["revision"] == 501
    assert run("resource_info", socket=database.remote)["revision"] == 501
    kept["revision"] = 501
    assert not run("resource", **arguments)["changed"]
    kept.update(deployment="another", revision=900)
    assert not run("resource", **arguments)["changed"]


def test_a_revision_that_no_run_has_made_is_refused(database):
    """The state would have it for ever, and the next one is no integer of the database any more."""
    run("resource", **intent(RED, database))
    arguments, stored = intent(RED, database), database.dump()
    kept = {"deployment": "heddle", "revision": (1 << 63) - 1}
    arguments["nodes"] = {**THREE_NODES, "node2": {**THREE_NODES["node2"], "kept_plan": kept}}
    refused = run("resource", **arguments)["msg"]
    assert "plan.json of node2 has revision 9223372036854775807, which no run has made; nothing was written" in refused
    assert database.dump() == stored
