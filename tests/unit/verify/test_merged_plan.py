# SPDX-License-Identifier: Apache-2.0
"""Hosts that have their parts of a plan ask by the plan that is merged of all parts."""

from __future__ import annotations

from ansible_collections.heddle.ovn.plugins.module_utils.common.serialization import pack, unpack
from ansible_collections.heddle.ovn.plugins.module_utils.render.common.host_plan import HostPlans, host_plan, merged
from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.expectation import expected
from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.selection import ALL
from ansible_collections.heddle.ovn.plugins.module_utils.verify.probing.prober import Expectations
from ansible_collections.heddle.ovn.plugins.plugin_utils.reachability import merged_plan, reachability_report
from tests.pipeline import layer2, namespace, nodes, plan_of, workload
from tests.unit.verify.test_evaluation import EVERY_PAIR, perfect


def reported_of(plan: dict, lost: str = "", stored: dict[str, str] | None = None) -> dict:
    """Return the report of hosts that all have met what they expect of the merged plan; `lost` ended after it began."""
    parts = {node: host_plan(plan, node) for node in plan["nodes"]}
    document = merged_plan([pack(part) for part in parts.values()])
    tested = unpack(document)
    hostvars = {}
    for node, host in perfect(tested).items():
        asked = Expectations.of(tested, node, {}, EVERY_PAIR)
        rows = expected(tested, node, EVERY_PAIR)
        answers = [
            [number, row.target, row.network, None, 1.5, True, False] for number, row in enumerate(rows) if row.reach
        ]
        record = {"questions": asked.fingerprint, "answers": answers, "unsent": [], "untested": [], "slowest": 1.5}
        hostvars[node] = {
            "heddle_responding": {"problems": [], "document": pack(parts[node]), "digest": parts[node]["digest"]},
            "heddle_probed": {"record": pack(record), "unanswered": 0, "problems": []},
            "heddle_stopped": {"received": pack(host["received"])},
        }
    if lost:
        hostvars[lost]["heddle_probed"] = {"unreachable": True}
    return reachability_report(hostvars, list(plan["nodes"]), {}, ALL, host_plans=stored)


# Networks are where they are used, and later hosts have networks whose names come first.
APART = plan_of(
    "".join(
        namespace(name) + layer2(name, "net", "10.0.0.0/24") + workload(name, "b", node) + workload(name, "a", node)
        for name, node in (("red", "node1"), ("blue", "node2"), ("amber", "node3"))
    ),
    hosts=nodes("node1", "node2", "node3"),
)


def test_hosts_ask_by_the_plan_that_is_merged_of_their_parts() -> None:
    found = reported_of(APART)
    assert (found["passed"], found["failures"], found["not_tested"], found["problems"]) == (True, [], [], [])


def test_a_host_that_is_lost_meanwhile_says_nothing_of_the_others() -> None:
    found = reported_of(APART, lost="node2")
    assert found["problems"] == ["node2: did not answer"]
    assert found["failures"] == []
    assert all("node2 did not answer" in line for line in found["not_tested"])


def test_a_host_without_a_stored_change_is_named() -> None:
    """It is consistent with what all hosts have, and tested, but the manifests make another plan."""
    digests = HostPlans(APART).digests
    assert reported_of(APART, stored=digests)["passed"]
    found = reported_of(APART, stored={**digests, "node2": "another"})
    assert (found["passed"], found["failures"]) == (False, [])
    assert found["problems"] == ["the stored manifests make another plan than node2 has; run heddle.ovn.networks"]


# The network `back` is on node2 alone, whose workload is in the parts of the other hosts of its primary network.
BACK = (
    "---\napiVersion: k8s.ovn.org/v1\nkind: UserDefinedNetwork\nmetadata: {name: back, namespace: red}\n"
    "spec: {topology: Layer2, layer2: {role: Secondary, subnets: [10.9.0.0/24]}}\n"
)
SHARED = plan_of(
    namespace("red") + layer2("red", "net", "10.0.0.0/24") + BACK
    + workload("red", "a", "node1") + workload("red", "b", "node2", "back") + workload("red", "c", "node3"),
    hosts=nodes("node1", "node2", "node3"),
)  # fmt: skip


def test_a_host_that_does_not_answer_at_all_is_reported_and_the_others_are_tested() -> None:
    parts = {node: host_plan(SHARED, node) for node in SHARED["nodes"]}
    assert "red/b" in parts["node1"]["workloads"] and "red_back" not in parts["node1"]["networks"]
    tested = merged([parts["node1"], parts["node3"]])
    assert [one["network"] for one in tested["workloads"]["red/b"]["interfaces"]] == ["default", "red_net"]
    asked = Expectations.of(tested, "node1", {}, EVERY_PAIR)
    assert {row.network for row in asked.rows} >= {"red_net"}


def test_a_workload_of_a_node_that_is_gone_is_not_asked() -> None:
    """node2 has missed the run without node3."""
    old = host_plan(SHARED, "node2")
    hosts = {name: node for name, node in SHARED["nodes"].items() if name != "node3"}
    workloads = {name: one for name, one in SHARED["workloads"].items() if one["node"] != "node3"}
    networks = {
        name: {**one, "nodes": [node for node in one["nodes"] if node in hosts]} if "nodes" in one else one
        for name, one in SHARED["networks"].items()
    }
    later = {**SHARED, "nodes": hosts, "workloads": workloads, "networks": networks, "revision": SHARED["revision"] + 1}
    found = merged([old, host_plan(later, "node1")])
    assert found["workloads"].keys() == {"red/a", "red/b"}
    assert Expectations.of(found, "node1", {}, EVERY_PAIR).rows
