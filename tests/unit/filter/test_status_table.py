# SPDX-License-Identifier: Apache-2.0
"""How a network's status follows from its conditions and from what its hosts have."""

import functools

import pytest

from ansible_collections.heddle.ovn.plugins.filter.readiness_hosts import readiness_hosts
from ansible_collections.heddle.ovn.plugins.module_utils.controllers.conditions import condition
from ansible_collections.heddle.ovn.plugins.module_utils.operations.readiness import (
    host_state,
    with_changes_unconfirmed,
    with_readiness,
)
from ansible_collections.heddle.ovn.plugins.module_utils.operations.status_text import network_statuses, status_table
from ansible_collections.heddle.ovn.plugins.module_utils.operations.status_view import (
    alike_table,
    changes_text,
    objects_text,
    state_view,
)
from tests import pipeline
from tests.pipeline import EVERYWHERE, layer2, layer3, namespace, nodes, workload

stored = functools.partial(pipeline.stored, settings=EVERYWHERE)
GOOD = {"digest": "d", "drift": [], "problems": []}
DRIFTED = {**GOOD, "drift": [{"network": "red_net"}]}
TEXT = namespace("red") + layer2("red", "net", "10.0.0.0/24") + workload("red", "w", "node1")
NET = "UserDefinedNetwork/red/net"


def kept(snapshot):
    """Return a snapshot as it comes out of the database, where it has a revision."""
    snapshot.revision = 1
    return snapshot


def reports(snapshot, **changes):
    digests = state_view(snapshot)["host_plans"]
    return {name: {**GOOD, "digest": digest, **changes.get(name, {})} for name, digest in digests.items()}


@pytest.mark.parametrize(
    ("report", "state"),
    [
        (GOOD, "ready"),
        (DRIFTED, "drifted"),
        ({**GOOD, "digest": "old"}, "behind"),
        ({**GOOD, "problems": ["no database\nat all", "no switch"]}, "cannot be compared: no database"),
        (
            {**GOOD, "problems": ["ovn-northd does not run"], "stopped": ["ovn-northd"]},
            "ovn-northd stopped: systemctl start ovn-northd (logs: journalctl -u ovn-northd)",
        ),
        (
            {**GOOD, "problems": ["a", "b"], "stopped": ["ovn-ovsdb-server-nb", "ovn-northd"]},
            "ovn-ovsdb-server-nb and 1 more stopped: systemctl start ovn-ovsdb-server-nb ovn-northd "
            "(logs: journalctl -u ovn-ovsdb-server-nb)",
        ),
        ({"failed": True, "msg": "northd is not there\nat all"}, "failed: northd is not there"),
        ({"failed": True, "msg": "x" * 300}, "failed: " + "x" * 200 + "..."),
        # What `failed_when: false` leaves of a module that failed.
        ({"failed": False, "msg": "no plan"}, "not installed: no plan"),
        ({"asked": False}, "not asked"),
        ({"unreachable": True}, "no answer"),
        ({}, "no answer"),
    ],
)
def test_host_state(report, state):
    assert host_state("d", report) == state


def statuses(audits):
    """Return the status of the networks red_net and blue_net of hosts with these audits."""
    networks = {name: {"object": NET} for name in ("red_net", "blue_net")}
    return tuple(
        network_statuses({"objects": {}, "host_plans": {"n1": "d", "n2": "d"}, "networks": networks}, audits).values()
    )


def test_a_network_is_ready_when_every_host_has_it():
    assert statuses({"n1": GOOD, "n2": GOOD}) == ("Ready", "Ready")
    assert statuses({"n1": GOOD, "n2": DRIFTED}) == ("n2 drifted", "Ready")
    shared = {**GOOD, "drift": [{"network": ""}]}
    assert statuses({"n1": shared, "n2": {}}) == ("n1 drifted, n2 no answer",) * 2


def test_the_tables_show_ids_keys_addresses_and_users():
    before = kept(stored(TEXT))
    text = status_table(state_view(before), reports(before))
    assert "Networks (2)" in text
    assert "red_net  1   Layer2    Primary  16711684 16715779  10.0.0.0/24" in text
    assert "red/w     node1  ovn-udn1   red_net  10.0.0.3/24" in text
    assert text.count("Ready\n") == 2
    assert all(line == line.rstrip() for line in text.splitlines())


def test_a_workload_with_two_interfaces_on_a_network_is_one_user():
    text = TEXT + layer2("red", "flat", "10.7.0.0/24").replace("Primary", "Secondary")
    view = state_view(kept(stored(text + workload("red", "twice", "node1", "flat,flat@second"))))
    assert view["users"]["red_flat"] == ["red/twice"]
    shown = status_table(view, {})
    assert "red/twice  node1  net1       red_flat  10.7.0.1/24" in shown
    assert "red/twice  node1  second     red_flat  10.7.0.2/24" in shown


def test_tables_show_problems_with_reasons():
    text = TEXT + layer3("red", "other", "10.9.0.0/16", 24) + namespace("blue") + workload("blue", "w", "node1")
    before = kept(stored(text))
    shown = status_table(state_view(before), reports(before))
    assert "UserDefinedNetwork/red/other  -" in shown
    assert "NetworkCreated False (SyncError): primary network already exist in namespace red" in shown
    assert "Workload/blue/w: Ready False (PrimaryNetworkMissing)" in shown
    assert "PrimaryNetworkConflict True" in shown
    table = objects_text(before)
    assert table.startswith("Attention (")
    assert "Workload/blue/w               PrimaryNetworkMissing" in table
    assert "NetworkAttachmentDefinition/red/net" not in table
    assert "Workload/red/w" not in table


def test_summary_groups_conditions_that_need_attention():
    many = "".join(workload("blue", f"w{number}", "node1") for number in range(150))
    before = kept(stored(TEXT + namespace("blue") + many))
    shown = status_table(state_view(before), reports(before, node2={"drift": [{"network": "red_net"}]}), summary=True)
    lines = shown.splitlines()
    assert lines[0] == "Attention (2)"
    assert sum("and 147 more: Ready False (PrimaryNetworkMissing)" in line for line in lines) == 1
    assert "  node2: drifted" in lines
    assert [line.split() for line in lines if line.startswith("  red_net")] == [["red_net", "node2", "drifted"]]
    assert [line.split() for line in lines[-4:]] == [
        ["all", "ready"], ["hosts", "3", "2"], ["networks", "2", "1"], ["workloads", "151", "1"],
    ]  # fmt: skip
    assert "red/w" not in shown


def many_networks(count):
    names = [f"t{number:03}" for number in range(count)]
    return "".join(namespace(name) + layer2(name, "net", "10.0.0.0/24") for name in names)


def test_new_networks_of_a_check_are_one_line():
    lines = objects_text(stored(many_networks(200))).splitlines()
    assert lines[0] == "Not ready (200)"
    named = ", ".join(f"UserDefinedNetwork/t{number:03}/net" for number in range(3))
    assert lines[2].split("  ") == ["", f"{named} and 197 more", "WaitingForHosts"]
    assert len(lines) < 20


def test_networks_that_differ_alike_are_one_line_of_the_summary():
    before = kept(stored(many_networks(200)))
    drift = [{"network": f"t{number:03}_net"} for number in range(200)]
    shown = status_table(state_view(before), reports(before, node2={"drift": drift}), summary=True)
    assert "t000_net, t001_net, t002_net and 197 more  node2 drifted\n" in shown
    assert len(shown.splitlines()) < 20


def test_a_table_of_states_is_limited():
    lines = alike_table("Not ready", ["object", "status"], [(f"w{number}", f"s{number}") for number in range(150)])
    assert lines[0] == "Not ready (150)"
    assert lines[-2:] == ["  ... and 50 more", ""]
    assert len(lines) == 104
    assert not alike_table("Not ready", ["object", "status"], [])


def test_summary_of_a_silent_host_lists_the_host_once():
    before = kept(stored(TEXT))
    shown = status_table(state_view(before), {**reports(before), "node3": {}}, summary=True)
    assert "node3: no answer" in shown
    assert "red_net" not in shown
    good = status_table(state_view(before), reports(before), summary=True)
    assert good.startswith("Totals")


def test_a_path_that_is_too_narrow_is_in_both_tables():
    before = kept(stored(TEXT))
    audits = reports(before, node2={"paths": ["node1: 1400 bytes arrive, 1458 are needed"]})
    for summary in (False, True):
        assert "node2: node1: 1400 bytes arrive" in status_table(state_view(before), audits, summary=summary)


def test_a_stopped_daemon_is_named_with_the_remedy_in_tables_and_stored_status():
    before = kept(stored(TEXT))
    report = {"problems": ["ovn-northd does not run: systemctl start ovn-northd"], "stopped": ["ovn-northd"]}
    audits = reports(before, node2=report)
    remedy = "node2: ovn-northd stopped: systemctl start ovn-northd (logs: journalctl -u ovn-northd)"
    for summary in (False, True):
        shown = status_table(state_view(before), audits, summary=summary)
        assert remedy in shown
        assert "cannot be compared" not in shown
    assert "node2 ovn-northd stopped\n" in status_table(state_view(before), audits)
    recorded = with_readiness(before, readiness_hosts(audits), "2026-01-01T01:00:00Z")
    assert condition(recorded.objects[NET], "NetworkReady")["message"] == remedy


def test_readiness_is_recorded_with_each_host_report():
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


def test_changes_are_listed_line_by_line():
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


def readiness(snapshot):
    found = condition(snapshot.objects[NET], "NetworkReady")
    return found["status"], found["reason"], found["lastTransitionTime"][:13]


def test_changed_network_is_not_ready_before_hosts_report():
    other = namespace("blue") + layer2("blue", "net", "10.0.0.0/24")
    before = kept(stored(TEXT + other))
    ready = kept(with_readiness(before, reports(before), "2026-01-01T01:00:00Z"))
    assert readiness(ready) == ("True", "AllHostsReady", "2026-01-01T01")

    after = with_changes_unconfirmed(ready, stored(TEXT + other, ready), "2026-01-01T02:00:00Z")
    assert after == ready
    more = TEXT + other + workload("blue", "w", "node1")
    after = with_changes_unconfirmed(ready, stored(more, ready), "2026-01-01T02:00:00Z")
    assert readiness(after) == readiness(ready)
    found = condition(after.objects["UserDefinedNetwork/blue/net"], "NetworkReady")
    assert (found["status"], found["reason"]) == ("Unknown", "WaitingForHosts")
    assert "hosts" not in after.objects["UserDefinedNetwork/blue/net"].status

    service = "---\napiVersion: v1\nkind: Service\nmetadata: {name: s, namespace: blue}\nspec: {ports: [{port: 80}]}\n"
    policy = (
        "---\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: p, namespace: blue}\n"
        "spec: {podSelector: {}}\n"
    )
    used = kept(stored(more, ready))
    ready = kept(with_readiness(used, reports(used), "2026-01-01T01:00:00Z"))
    for further in (service, policy):
        after = with_changes_unconfirmed(ready, stored(more + further, ready), "2026-01-01T02:00:00Z")
        assert readiness(after) == readiness(ready)
        found = condition(after.objects["UserDefinedNetwork/blue/net"], "NetworkReady")
        assert (found["status"], found["reason"]) == ("Unknown", "WaitingForHosts")

    moved = stored((TEXT + other).replace("node1", "node2"), ready)
    assert readiness(with_changes_unconfirmed(ready, moved, "2026-01-01T02:00:00Z"))[:2] == (
        "Unknown", "WaitingForHosts",
    )  # fmt: skip
    gone = stored(namespace("red") + layer2("red", "net", "10.0.0.0/24") + other, ready)
    assert readiness(with_changes_unconfirmed(ready, gone, "2026-01-01T02:00:00Z"))[0] == "Unknown"
    hosts = nodes("node1", "node2", "node3", "node4")
    larger = with_changes_unconfirmed(ready, stored(TEXT + other, ready, hosts=hosts), "2026-01-01T02:00:00Z")
    assert {
        condition(larger.objects[key], "NetworkReady")["status"] for key in (NET, "UserDefinedNetwork/blue/net")
    } == {"Unknown"}


def test_hosts_beyond_the_limit_keep_their_last_report():
    before = kept(stored(TEXT))
    first = kept(with_readiness(before, reports(before, node3={"asked": False}), "2026-01-01T01:00:00Z"))
    assert readiness(first) == ("Unknown", "HostsNotAsked", "2026-01-01T00")
    assert condition(first.objects[NET], "NetworkReady")["message"] == "node3: not asked"
    rest = reports(before, node1={"asked": False}, node2={"asked": False})
    second = kept(with_readiness(first, rest, "2026-01-01T02:00:00Z"))
    assert readiness(second) == ("True", "AllHostsReady", "2026-01-01T02")
    third = with_readiness(second, {**rest, "node3": {}}, "2026-01-01T03:00:00Z")
    assert condition(third.objects[NET], "NetworkReady")["message"] == "node3: no answer"
    shown = status_table(state_view(second), {**rest, "node3": {"failed": True, "msg": "no northd"}})
    assert "node3: failed: no northd" in shown
    assert "node1 not asked, node2 not asked, node3 failed\n" in shown


def test_every_difference_has_a_line():
    before = kept(stored(TEXT))
    ready = kept(with_readiness(before, reports(before, node2={"drift": [{"network": ""}]}), "2026-01-01T01:00:00Z"))
    lost = with_readiness(ready, {**reports(before), "node2": {}}, "2026-01-01T02:00:00Z")
    assert (
        f"  status {NET}: NetworkReady False (HostsNotReady): node2: no answer"
        in changes_text(ready, lost).splitlines()
    )


def test_refused_network_does_not_affect_readiness_of_others():
    refused = {"failed": True, "msg": "network red_net: a route", "refused": {"red_net": "a route\nin the way"}}
    assert statuses({"n1": refused, "n2": GOOD}) == ("n1 refused", "Ready")


def test_neighbours_of_bird_are_shown_as_hosts_report_them():
    before = kept(pipeline.stored("", hosts=nodes("node1", "node2")))
    one = {"name": "heddle_node2_4", "kind": "BGP", "title": "node2", "address": "198.18.2.12", "as_number": 64512,
           "learned": 3, "advertised": 1, "information": "Established"}  # fmt: skip
    audits = reports(before)
    audits["node1"] = {**audits["node1"], "routing": [one]}
    shown = " ".join(status_table(state_view(before), audits).split())
    assert "Neighbours of BIRD (1)" in shown
    assert "node1 node2 BGP 198.18.2.12 64512 3 1 Established" in shown
    assert "Neighbours" not in status_table(state_view(before), reports(before))
