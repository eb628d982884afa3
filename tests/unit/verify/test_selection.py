# SPDX-License-Identifier: Apache-2.0
"""The selected questions: their coverage, and their number, which grows with the workloads."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.heddle.ovn.plugins.module_utils.verify.evaluation import evaluate
from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations import selection
from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.coverage import coverage
from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.expectation import expected
from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.external_expectations import (
    TO_EXTERNAL,
    external_flows,
)
from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.fleet import FleetExpectations
from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.selection import ALL, Groups, Selection
from ansible_collections.heddle.ovn.plugins.module_utils.verify.probing.prober import Expectations
from tests.pipeline import layer2, namespace, plan_of, with_gateways, workload

NODES = ("node1", "node2", "node3")
PLACES = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(NODES)), min_size=1, max_size=12)


def plan_with(places: list[tuple[int, str]]) -> dict:
    """Return a plan of dual-stack networks net0 to net3 (net3: the default one) with workloads at these places."""
    text = "".join(
        namespace(f"n{number}") + layer2(f"n{number}", "net", f"10.{number}.0.0/16", f"fd00:{number + 1}::/64")
        for number in range(3)
    )
    text += namespace("n3", primary=False)
    text += "".join(workload(f"n{network}", f"w{place}", node) for place, (network, node) in enumerate(places))
    return plan_of(text, hosts=with_gateways("shared"))


@settings(max_examples=25, deadline=None)
@given(PLACES, st.text("ab", max_size=3))
def test_selection_covers_every_class_and_workload(places, seed):
    plan = plan_with(places)
    node = {name: one["node"] for name, one in plan["workloads"].items()}

    def classes(pairs):
        return {(one.network, node[one.source], node[one.target], one.family, one.reach) for one in pairs if one.reach}

    every, chosen = expected(plan, None, Selection(ALL)), expected(plan, None, Selection(seed=seed))
    assert classes(chosen) == classes(every)
    assert {(one.target, one.address) for one in chosen if one.reach} == {
        (one.target, one.address) for one in every if one.reach
    }
    assert {one.source for one in chosen if one.reach} == {one.source for one in every if one.reach}
    assert set(chosen) <= set(every)
    assert len(chosen) == len(set(chosen))


@settings(max_examples=25, deadline=None)
@given(PLACES, st.sampled_from([Selection(), Selection(ALL), Selection(seed="a")]))
def test_expectations_of_the_fleet_are_those_of_each_host_in_its_order(places, chosen):
    plan, external = plan_with(places), {"external": ["192.0.2.200", "2001:db8::200"]}
    fleet = FleetExpectations.of(plan, external, chosen)
    assert Expectations.of_hosts(fleet) == {
        name: Expectations.of(plan, name, external, chosen) for name in (*plan["nodes"], *external)
    }
    assert (fleet.pairs, fleet.flows) == (expected(plan, None, chosen), external_flows(plan, external, None, chosen))


@settings(max_examples=25, deadline=None)
@given(PLACES)
def test_every_network_is_tested_against_every_other_one_from_each_of_its_hosts(places):
    plan = plan_with(places)
    primary = {
        name: next(one["network"] for one in described["interfaces"] if one["role"] == "primary")
        for name, described in plan["workloads"].items()
    }
    node = {name: one["node"] for name, one in plan["workloads"].items()}
    isolated = {
        (primary[one.source], node[one.source], one.network, one.family)
        for one in expected(plan)
        if not one.reach and one.network != "default"
    }
    assert isolated == {
        (mine, node[source], other, family)
        for source, mine in primary.items()
        for other in set(primary.values()) - {mine, "default"}
        for family in (4, 6)
    }


@settings(max_examples=15, deadline=None)
@given(PLACES)
def test_hosts_compute_the_same_selection(places):
    plan = plan_with(places)
    together = [pair for node in plan["nodes"] for pair in expected(plan, node)]
    assert sorted(map(repr, together)) == sorted(map(repr, expected(plan)))


def test_the_number_of_questions_grows_with_the_workloads():
    counts = []
    for many in (60, 120, 240):
        plan = plan_with([(number % 4, NODES[number // 4 % 3]) for number in range(many)])
        counts.append(len(expected(plan)) + len(external_flows(plan, {"external": ["192.0.2.200"]})))
    assert counts[2] - counts[1] <= 2.2 * (counts[1] - counts[0])
    assert counts[2] < len(expected(plan, None, Selection(ALL))) / 20


def test_another_seed_chooses_other_workloads():
    plan = plan_with([(number % 4, NODES[number // 4 % 3]) for number in range(60)])
    assert expected(plan, None, Selection(seed="a")) == expected(plan, None, Selection(seed="a"))
    assert expected(plan, None, Selection(seed="a")) != expected(plan, None, Selection(seed="b"))


def test_every_workload_sends_to_an_external_host():
    plan = plan_with([(number % 4, NODES[number // 4 % 3]) for number in range(40)])
    asked = {one.workload for one in external_flows(plan, {"external": ["192.0.2.200"]}) if one.kind == TO_EXTERNAL}
    assert asked == set(plan["workloads"])


POLICY = """---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: web, namespace: n0}
spec:
  podSelector: {matchLabels: {app: web}}
  ingress: [{from: [{podSelector: {matchLabels: {app: api}}}]}]
"""
LABELS = ("web", "api", "other")


def plan_with_policies() -> tuple[dict, dict[str, str]]:
    """Return a plan of one network and host with four workloads of each label, and the label of each workload."""
    labels = {f"n0/w{number}": LABELS[number % 3] for number in range(12)}
    text = namespace("n0") + layer2("n0", "net", "10.0.0.0/16") + POLICY
    for name, label in labels.items():
        one = workload("n0", name.removeprefix("n0/"), "node1")
        text += one.replace("namespace: n0}", f"namespace: n0, labels: {{app: {label}}}}}")
    return plan_of(text), labels


@settings(max_examples=10, deadline=None)
@given(st.text("abc", max_size=4))
def test_each_group_that_policies_distinguish_asks_each_other_one(seed):
    plan, labels = plan_with_policies()
    chosen = {
        (labels[one.source], labels[one.target], one.reach)
        for one in expected(plan, None, Selection(seed=seed))
        if one.network == "n0_net"
    }
    assert chosen == {(source, target, target != "web" or source == "api") for source in LABELS for target in LABELS}


def test_questions_for_policies_grow_with_their_groups(monkeypatch):
    plan, _labels = plan_with_policies()
    monkeypatch.setattr(selection, "MOST_POLICY_GROUPS", 2)
    groups = Groups(plan, Selection())
    keys = [key for one in groups.chosen() for key in one.classes if key[0] == "policy"]
    assert len({key[2] for key in keys}) == len(keys) == len(LABELS)
    assert any("policies: 3 of 9 pairs of groups" in line for line in groups.left_out())


def test_report_counts_classes_without_a_result_and_untested_workloads(monkeypatch):
    plan = plan_with([(0, "node1"), (0, "node2"), (1, "node1"), (3, "node3")])
    report = evaluate(plan, {})
    assert all(one["covered"] == 0 < one["of"] for one in report["coverage"]["sorts"].values())
    # From each node of net0 and net1, in two families, the one in the other; from the default network both.
    assert report["coverage"]["sorts"]["isolation"]["of"] == 2 * (2 + 1 + 2)
    assert report["coverage"]["left_out"] == ["n1_net: one workload only, which has no peer on its network"]
    monkeypatch.setattr(selection, "MOST_NETWORKS", 1)
    lines = Groups(plan, Selection()).left_out()
    assert lines[-1] == "isolation: each network was tested against 1 of the 2 others"


def test_class_is_covered_when_its_question_has_a_result():
    plan = plan_with([(0, "node1"), (0, "node2")])
    pairs = [
        {
            "source": one.source, "target": one.target, "network": one.network, "family": one.family,
            "result": "reached" if one.family == 4 else "not tested",
        }
        for one in expected(plan)
    ]  # fmt: skip
    sorts = coverage(FleetExpectations.of(plan, {}, Selection()), pairs, [])["sorts"]
    assert sorts["network"]["of"] == 2 * sorts["network"]["covered"] > 0
