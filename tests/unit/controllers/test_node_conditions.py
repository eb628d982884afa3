# SPDX-License-Identifier: Apache-2.0
"""What nodes report of firewalls, QoS and policies of the cluster, in ovn-kubernetes' words."""

from dataclasses import replace

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.controllers.backup import backup_of, restore
from ansible_collections.heddle.ovn.plugins.module_utils.operations.object_status import attention, object_status
from ansible_collections.heddle.ovn.plugins.module_utils.operations.object_view import documents
from ansible_collections.heddle.ovn.plugins.module_utils.operations.readiness import (
    with_changes_unconfirmed,
    with_readiness,
)
from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from ansible_collections.heddle.ovn.plugins.module_utils.render.common.host_plan import HostPlans
from tests.pipeline import THREE_NODES, layer2, namespace, stored, workload

FIREWALL = """---
apiVersion: k8s.ovn.org/v1
kind: EgressFirewall
metadata: {name: default, namespace: red}
spec: {egress: [{type: Deny, to: {cidrSelector: CIDR}}]}
"""
QOS = """---
apiVersion: k8s.ovn.org/v1
kind: EgressQoS
metadata: {name: default, namespace: plain}
spec: {egress: [{dscp: 10}]}
"""
POLICY = """---
apiVersion: policy.networking.k8s.io/v1alpha1
kind: AdminNetworkPolicy
metadata: {name: tenants}
spec: {priority: 5, subject: {namespaces: {}}, ingress: [{action: Deny, from: [{namespaces: {}}]}]}
"""
NETWORK = layer2("red", "net", "10.0.0.0/24") + workload("red", "a", "node1") + workload("red", "b", "node2")
OTHERS = FIREWALL.replace("CIDR", "192.0.2.0/24") + QOS + POLICY
TEXT = namespace("red") + NETWORK + namespace("plain", primary=False) + OTHERS
THE_FIREWALL, THE_QOS = "EgressFirewall/red/default", "EgressQoS/plain/default"
THE_POLICY = "AdminNetworkPolicy/tenants"
START, LATER = "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"
APPLIED, FAILED = "EgressFirewall Rules applied", "EgressFirewall Rules not correctly applied"


def admitted(text=TEXT, before=None):
    """The state with these manifests as the database holds it: with a revision."""
    return replace(stored(text, before), revision=1)


def reported(snapshot, moment=START, **other):
    """The state after a run in which each node is as planned, except `other` nodes with their reports."""
    digests = HostPlans(build_plan(snapshot)).digests
    ready = {node: {"digest": digest, "drift": []} for node, digest in digests.items()}
    return with_readiness(snapshot, {**ready, **other}, moment)


def status(snapshot, key):
    return snapshot.objects[key].status


def in_zones(snapshot, key):
    return {
        one["type"]: (one["status"], one["reason"], one["message"])
        for one in status(snapshot, key)["conditions"]
        if one["type"] != "Accepted"
    }


def test_nodes_that_have_applied_an_object_say_so():
    before = admitted()
    assert {"messages", "status"}.isdisjoint(status(before, THE_FIREWALL))
    found = reported(before)
    # A firewall is on the nodes of its network only.
    assert status(found, THE_FIREWALL)["messages"] == [f"node1: {APPLIED}", f"node2: {APPLIED}"]
    assert status(found, THE_FIREWALL)["status"] == APPLIED
    assert status(found, THE_QOS)["status"] == "EgressQoS Rules applied"
    success = ("True", "SetupSucceeded")
    assert in_zones(found, THE_QOS) == {
        f"Ready-In-Zone-{node}": (*success, "EgressQoS Rules applied") for node in THREE_NODES
    }
    assert in_zones(found, THE_POLICY) == {
        f"Ready-In-Zone-{node}": (*success, "Setting up OVN DB plumbing was successful") for node in THREE_NODES
    }
    assert "status" not in status(found, THE_POLICY)
    assert reported(found, LATER) == found
    assert admitted(TEXT, found).objects == found.objects


def test_a_node_that_failed_is_named_with_the_reason():
    found = reported(admitted(), node2={"failed": True, "msg": "disk full\nmore"})
    assert status(found, THE_FIREWALL)["messages"] == [f"node1: {APPLIED}", f"node2: {FAILED}: failed: disk full"]
    assert status(found, THE_FIREWALL)["status"] == FAILED
    assert status(found, THE_QOS)["status"] == "EgressQoS Rules not correctly applied"
    assert in_zones(found, THE_QOS)["Ready-In-Zone-node2"] == (
        "False", "SetupFailed", "EgressQoS Rules not correctly applied: failed: disk full",
    )  # fmt: skip
    assert in_zones(found, THE_POLICY)["Ready-In-Zone-node2"] == ("False", "SetupFailed", "failed: disk full")
    shown = documents(found)
    assert {object_status(shown[key]) for key in (THE_FIREWALL, THE_QOS, THE_POLICY)} == {"SetupFailed"}
    assert not [line for line in attention(shown) if "Zone" in line]
    # The condition of a node whose status is the same keeps its time.
    again = reported(found, LATER)
    times = {one["type"]: one["lastTransitionTime"] for one in status(again, THE_POLICY)["conditions"]}
    assert (times["Ready-In-Zone-node1"], times["Ready-In-Zone-node2"]) == (START, LATER)
    assert status(again, THE_FIREWALL)["status"] == APPLIED


def test_a_node_outside_the_limit_keeps_its_report():
    before = admitted()
    limited = reported(before, node2={"asked": False})
    assert status(limited, THE_FIREWALL)["messages"] == [f"node1: {APPLIED}"]
    assert "status" not in status(limited, THE_FIREWALL)
    assert list(in_zones(limited, THE_POLICY)) == ["Ready-In-Zone-node1", "Ready-In-Zone-node3"]
    assert reported(reported(before), LATER, node2={"asked": False}) == reported(before)


def test_a_changed_object_waits_for_new_reports_and_others_do_not():
    before = reported(admitted())
    after = with_changes_unconfirmed(before, admitted(TEXT.replace("192.0.2.0/24", "198.51.100.0/24"), before), LATER)
    assert {"messages", "status"}.isdisjoint(status(after, THE_FIREWALL))
    assert (status(after, THE_QOS), status(after, THE_POLICY)) == (status(before, THE_QOS), status(before, THE_POLICY))


SELECTING = (
    POLICY.replace("name: tenants", "name: web").replace("priority: 5", "priority: 6")
    .replace("subject: {namespaces: {}}",
             "subject: {pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: web}}}}")
    .replace("[{namespaces: {}}]",
             "[{pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: db}}}}]")
)  # fmt: skip


@pytest.mark.parametrize("label", ["web", "db"])
def test_a_policy_waits_for_new_reports_when_other_workloads_are_selected(label):
    text = TEXT.replace("name: b,", "name: b, labels: {app: web},") + SELECTING
    before = reported(admitted(text))
    labelled = text.replace("name: a,", f"name: a, labels: {{app: {label}}},")
    after = with_changes_unconfirmed(before, admitted(labelled, before), LATER)
    assert in_zones(before, "AdminNetworkPolicy/web")
    assert not in_zones(after, "AdminNetworkPolicy/web")
    # It selects the same ones as before.
    assert status(after, THE_POLICY) == status(before, THE_POLICY)
    assert in_zones(reported(after, LATER), "AdminNetworkPolicy/web") == in_zones(before, "AdminNetworkPolicy/web")


def test_so_do_a_firewall_and_qos_when_a_workload_comes():
    before = reported(admitted())
    more = TEXT + workload("red", "c", "node1")
    after = with_changes_unconfirmed(before, admitted(more, before), LATER)
    assert {"messages", "status"}.isdisjoint(status(after, THE_FIREWALL))
    assert not in_zones(after, THE_POLICY)
    assert status(after, THE_QOS) == status(before, THE_QOS)
    selecting = TEXT.replace("{dscp: 10}", "{dscp: 10, podSelector: {matchLabels: {app: web}}}")
    before = reported(admitted(selecting))
    text = workload("plain", "w", "node1").replace("name: w,", "name: w, labels: {app: web},")
    after = with_changes_unconfirmed(before, admitted(selecting + text, before), LATER)
    assert in_zones(before, THE_QOS)
    assert not in_zones(after, THE_QOS)
    assert "status" not in status(after, THE_QOS)
    assert status(after, THE_FIREWALL) == status(before, THE_FIREWALL)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (TEXT.replace(NETWORK, ""), THE_FIREWALL),
        (TEXT.replace("namespace: plain", "namespace: red"), "EgressQoS/red/default"),
    ],
)
def test_an_object_without_effect_has_no_reports(text, key):
    found = reported(admitted(text, reported(admitted())), LATER)
    assert {"messages", "status"}.isdisjoint(status(found, key))
    (accepted,) = status(found, key)["conditions"]
    assert (accepted["type"], accepted["status"]) == ("Accepted", "False")


def test_after_a_restore_no_node_has_reported():
    document = backup_of(reported(admitted()))
    _before, after = restore(None, document, overwrite=False, least_revision=0, moment=LATER, write=False)
    for key in (THE_FIREWALL, THE_QOS, THE_POLICY):
        assert status(after, key) == status(admitted(), key)


def test_an_egress_qos_without_a_spec_has_no_rules():
    """`spec` is optional in its definition (k8s.ovn.org/v1)."""
    text = TEXT.replace("spec: {egress: [{dscp: 10}]}\n", "")
    after = admitted(text)
    [entry] = build_plan(after)["egress_qos"]
    assert entry == {"namespace": "plain", "rules": []}
