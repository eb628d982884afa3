# SPDX-License-Identifier: Apache-2.0
"""Network policies in the state: the network they are about, their status, what the plan has of them."""

from __future__ import annotations

import json

from ansible_collections.heddle.ovn.plugins.module_utils.operations.object_status import attention, object_status
from ansible_collections.heddle.ovn.plugins.module_utils.operations.object_view import documents
from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from ansible_collections.heddle.ovn.plugins.module_utils.render.northbound import render_northbound
from tests.pipeline import decide, layer2, layer3, namespace, plan_of, stored, workload

RED = (
    namespace("red")
    + layer2("red", "net", "10.0.0.0/24")
    + workload("red", "a", "node1")
    + workload("red", "b", "node2")
)


def labelled(text: str, name: str, **labels: str) -> str:
    return text.replace(f"name: {name}, namespace", f"name: {name}, labels: {json.dumps(labels)}, namespace")


def policy(inside: str, name: str, **spec) -> str:
    document = {
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": name, "namespace": inside},
        "spec": spec,
    }  # fmt: skip
    return f"---\n{json.dumps(document)}\n"


def conditions(snapshot, key: str) -> list[tuple]:
    found = snapshot.objects[f"NetworkPolicy/{key}"].status["conditions"]
    return [(one["type"], one["status"], one["reason"], one["message"]) for one in found]


def acls(plan: dict, node: str = "node1") -> list[str]:
    return [row.key for row in render_northbound(plan, node) if row.table == "ACL" and "NetworkPolicy" in row.key]


def test_policy_is_about_the_primary_network_of_its_namespace():
    plain = namespace("plain", primary=False) + workload("plain", "a", "node1")
    text = RED + plain + policy("red", "p", podSelector={}) + policy("plain", "p", podSelector={})
    after = stored(text)
    assert conditions(after, "red/p") == [("Accepted", "True", "Accepted", "in effect on red_net")]
    assert conditions(after, "plain/p") == [("Accepted", "True", "Accepted", "in effect on default")]
    assert list(build_plan(after)["policies"]) == ["default", "red_net"]


def test_policy_waits_for_the_primary_network():
    text = namespace("red") + workload("red", "a", "node1") + policy("red", "p", podSelector={})
    after = stored(text)
    assert conditions(after, "red/p") == [
        ("Accepted", "False", "PrimaryNetworkMissing",
         "namespace red is labelled for a primary network and has none that can be used"),
    ]  # fmt: skip
    assert build_plan(after)["policies"] == {}
    found = documents(after)
    assert object_status(found["NetworkPolicy/red/p"]) == "PrimaryNetworkMissing"
    assert any("NetworkPolicy/red/p: Accepted False" in line for line in attention(found))
    later = stored(text + layer2("red", "net", "10.0.0.0/24"), after)
    assert conditions(later, "red/p")[0][:3] == ("Accepted", "True", "Accepted")


def test_policy_that_selects_no_workload_is_accepted_and_says_so():
    after = stored(RED + policy("red", "p", podSelector={"matchLabels": {"app": "gone"}}))
    message = "in effect on red_net; podSelector selects no workload"
    assert conditions(after, "red/p") == [("Accepted", "True", "Accepted", message)]
    assert not [line for line in attention(documents(after)) if "NetworkPolicy" in line]


def test_port_name_that_no_workload_has_is_reported_and_allows_nothing():
    rules = [{"ports": [{"port": "http"}, {"port": "http"}, {"port": 53, "protocol": "UDP"}]}]
    after = stored(RED + policy("red", "p", podSelector={}, ingress=rules))
    assert conditions(after, "red/p")[1] == (
        "PartialFailure", "True", "NamedPortNotFound",
        "no workload has such a port, so nothing is allowed for it: ingress TCP http",
    )  # fmt: skip
    assert acls(build_plan(after)) == ["red_net-network-controller:NetworkPolicy:red:p:Ingress:0:UDP:-1"]


def test_second_run_writes_nothing():
    text = RED + policy("red", "p", podSelector={}, ingress=[{"ports": [{"port": "http"}]}])
    first = stored(text)
    assert stored(text, first, now="2027-01-01T00:00:00Z").objects == first.objects


def test_policy_before_its_workloads_and_after():
    rules = {"podSelector": {"matchLabels": {"app": "web"}}, "ingress": [{}]}
    before = stored(RED + policy("red", "p", **rules))
    assert not acls(build_plan(before))
    after = build_plan(stored(labelled(RED, "a", app="web") + policy("red", "p", **rules), before))
    assert acls(after) == ["red_net-network-controller:NetworkPolicy:red:p:Ingress:0:None:-1"]
    assert not acls(after, "node2")


def test_equal_selectors_share_port_group_and_address_set():
    """Other order, other policies: one of each."""
    one = {"matchExpressions": [{"key": "x", "operator": "NotIn", "values": ["b", "a"]}], "matchLabels": {}}
    other = {"matchExpressions": [{"key": "x", "operator": "NotIn", "values": ["a", "b"]}]}
    text = RED + "".join(
        policy("red", f"p{number}", podSelector=selector, ingress=[{"from": [{"podSelector": selector}]}])
        for number, selector in enumerate([one, other] * 3)
    )
    rows = render_northbound(plan_of(text), "node1")
    owners = [row.columns["external_ids"].get("k8s.ovn.org/owner-type") for row in rows if row.table == "Port_Group"]
    assert sorted(owners) == ["NetpolNamespace", "NetworkPolicy", "UDNIsolation"]
    assert len([row for row in rows if row.table == "Address_Set"]) == 1


def test_address_sets_have_all_nodes_and_port_groups_this_one():
    text = RED + policy("red", "p", podSelector={}, ingress=[{"from": [{"podSelector": {}}]}])
    plan = plan_of(text)
    for node, port in (("node1", "red.net_red_a"), ("node2", "red.net_red_b")):
        rows = render_northbound(plan, node)
        [addresses] = [row.columns["addresses"] for row in rows if row.table == "Address_Set"]
        assert addresses == {"10.0.0.3", "10.0.0.4"}
        groups = [row for row in rows if row.table == "Port_Group" and row.network == "red_net"]
        assert [{ref.key for ref in row.columns["ports"]} for row in groups] == [{port}] * 2
    assert not [row for row in render_northbound(plan, "node3") if row.network == "red_net" and row.table == "ACL"]


def test_selectors_of_another_network_select_nothing():
    blue = namespace("blue") + layer3("blue", "net", "10.128.0.0/16", 24) + workload("blue", "a", "node1")
    rule = {"from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "blue"}}}]}
    plan = plan_of(RED + blue + policy("red", "p", podSelector={}, ingress=[rule]))
    assert [members for name, members in plan["policies"]["red_net"]["selections"].items() if "blue" in name] == [[]]


def test_one_bad_policy_is_refused_by_name():
    """What an API server refuses is refused; what only a controller finds out concerns this policy alone."""
    _after, problems = decide(RED + policy("gone", "p", podSelector={}))
    assert [str(problem).partition(": ")[2] for problem in problems] == [
        "metadata.namespace: namespace gone does not exist; add a Namespace manifest"
    ]


def test_namespace_waits_for_its_policies():
    first = stored(RED)
    second = stored(policy("red", "p", podSelector={}), first, manifest_set="policies")
    third = stored("", second)
    assert third.objects["Namespace/red"].is_deleting
    assert "Namespace/red" not in stored("", third, manifest_set="policies").objects
