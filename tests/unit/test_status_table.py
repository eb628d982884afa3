# SPDX-License-Identifier: Apache-2.0
"""How a network's status follows from its conditions and from what its hosts have."""

import pytest

from ansible_collections.heddle.ovn.plugins.filter.status_table import network_status, status_table
from ansible_collections.heddle.ovn.plugins.module_utils.readiness import host_state, with_readiness
from ansible_collections.heddle.ovn.plugins.module_utils.state.conditions import condition
from ansible_collections.heddle.ovn.plugins.module_utils.state_view import changes_text, objects_text, state_view
from tests.pipeline import layer2, layer3, namespace, stored, workload

GOOD = {"digest": "d", "drift": [], "problems": []}
DRIFTED = {**GOOD, "drift": [{"network": "red_net"}]}
TEXT = namespace("red") + layer2("red", "net", "10.0.0.0/24") + workload("red", "w", "node1")
NET = "UserDefinedNetwork/red/net"


def kept(snapshot):
    """Return a snapshot as it comes out of the database, where it has a revision."""
    snapshot.revision = 1
    return snapshot


def reports(snapshot, **changes):
    good = {**GOOD, "digest": state_view(snapshot)["digest"]}
    return {name: {**good, **changes.get(name, {})} for name in ("node1", "node2", "node3")}


@pytest.mark.parametrize(
    ("report", "state"),
    [
        (GOOD, "ready"),
        (DRIFTED, "drifted"),
        ({**GOOD, "digest": "old"}, "behind"),
        ({**GOOD, "problems": ["no database"]}, "not installed"),
        ({"failed": True, "msg": "no plan"}, "not installed"),
        ({"unreachable": True}, "no answer"),
        ({}, "no answer"),
    ],
)
def test_host_state(report, state):
    assert host_state("d", report) == state


def test_a_network_is_ready_when_every_host_has_it():
    status = {"objects": {}, "digest": "d"}
    network = {"object": NET}
    assert network_status("red_net", network, status, {"n1": GOOD, "n2": GOOD}) == "Ready"
    assert network_status("red_net", network, status, {"n1": GOOD, "n2": DRIFTED}) == "n2 drifted"
    assert network_status("blue_net", network, status, {"n1": GOOD, "n2": DRIFTED}) == "Ready"
    shared = {**GOOD, "drift": [{"network": ""}]}
    assert network_status("blue_net", network, status, {"n1": shared, "n2": {}}) == "n1 drifted, n2 no answer"


def test_the_tables_show_ids_keys_addresses_and_users():
    before = kept(stored(TEXT))
    text = status_table(state_view(before), reports(before))
    assert "Networks (2)" in text
    assert "red_net  1   Layer2    Primary  16711684 16715779  10.0.0.0/24" in text
    assert "red/w     node1  ovn-udn1   red_net  10.0.0.3/24" in text
    assert text.count("Ready\n") == 2
    assert all(line == line.rstrip() for line in text.splitlines())


def test_the_tables_name_what_is_not_well_and_why():
    text = TEXT + layer3("red", "other", "10.9.0.0/16", 24) + namespace("blue") + workload("blue", "w", "node1")
    before = kept(stored(text))
    shown = status_table(state_view(before), reports(before))
    assert "UserDefinedNetwork/red/other  -" in shown
    assert "NetworkCreated False (SyncError): primary network already exist in namespace red" in shown
    assert "Workload/blue/w: Ready False (PrimaryNetworkMissing)" in shown
    assert "PrimaryNetworkConflict True" in shown
    table = objects_text(before)
    assert "Workload/blue/w               PrimaryNetworkMissing" in table
    assert "NetworkAttachmentDefinition/red/net" not in table


def test_readiness_is_recorded_once_with_what_each_host_said():
    before = kept(stored(TEXT))
    ready = with_readiness(before, reports(before), "2026-01-01T01:00:00Z")
    found = condition(ready.objects[NET], "NetworkReady")
    assert (found["status"], found["reason"], found["lastTransitionTime"]) == (
        "True", "AllHostsReady", "2026-01-01T01:00:00Z",
    )  # fmt: skip
    assert ready.objects[NET].status["hosts"] == dict.fromkeys(("node1", "node2", "node3"), "ready")
    assert with_readiness(ready, reports(ready), "2026-01-01T02:00:00Z") == ready
    assert stored(TEXT, ready).objects == ready.objects
    assert state_view(ready)["digest"] == state_view(before)["digest"]
    lost = with_readiness(ready, {**reports(ready), "node2": {}}, "2026-01-01T03:00:00Z")
    found = condition(lost.objects[NET], "NetworkReady")
    assert (found["status"], found["message"]) == ("False", "node2: no answer")


def test_a_host_without_a_subnet_of_a_network_does_not_have_it():
    before = kept(stored(namespace("red") + layer3("red", "net", "10.9.0.0/25", 26)))
    ready = with_readiness(before, reports(before), "2026-01-01T01:00:00Z")
    assert condition(ready.objects[NET], "NetworkReady")["message"] == "node3: has no subnet of it"


def test_changes_are_told_line_by_line():
    empty = stored("")
    before = stored(TEXT, empty)
    lines = changes_text(empty, before).splitlines()
    assert "  create UserDefinedNetwork/red/net" in lines
    assert (
        "  status UserDefinedNetwork/red/net: NetworkCreated unset -> True (NetworkAttachmentDefinitionCreated)"
        in lines
    )
    assert "  give network-id red_net: 1" in lines
    assert changes_text(before, before) == "No changes\n"
    waiting = stored(namespace("red") + workload("red", "w", "node1"), before)
    assert (
        "  delete UserDefinedNetwork/red/net when its last user is gone" in changes_text(before, waiting).splitlines()
    )
    assert "  delete UserDefinedNetwork/red/net" in changes_text(waiting, empty).splitlines()
