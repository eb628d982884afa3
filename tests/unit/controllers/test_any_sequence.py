# SPDX-License-Identifier: Apache-2.0
"""Whatever is applied in whatever order: what always holds."""

from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.heddle.ovn.plugins.module_utils.controllers.network.networks import (
    is_pending,
    running_workloads,
    wanted_networks,
)
from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from ansible_collections.heddle.ovn.plugins.module_utils.render.common.node_network import is_on
from ansible_collections.heddle.ovn.plugins.module_utils.render.northbound import render_northbound
from tests.pipeline import decide, layer2, layer3, namespace, stored, workload
from tests.unit.controllers.test_network_status import PRIMARY, SECONDARY, among, cluster, foreign

SELECTIONS = {
    "red": ("", "narrow,tiny", "tiny"),
    "blue": ("red/narrow", "tiny@x,tiny", "red/tiny"),
    "plain": ("net,red/tiny", "", "gone"),
}
PARTS = [
    namespace("red"),
    namespace("blue"),
    namespace("plain", primary=False),
    layer2("red", "net", "10.0.0.0/24"),
    layer2("red", "other", "10.1.0.0/29"),
    layer3("blue", "net", "10.9.0.0/25", 26),
    layer2("plain", "net", "10.0.0.0/24"),
    cluster("net", SECONDARY),
    cluster("wide", PRIMARY, among("red", "blue")),
    cluster("narrow", SECONDARY.replace("10.7", "10.0"), among("red")),
    foreign("{}", name="other"),
    # Too small for all workloads of their namespaces.
    layer2("red", "tiny", "10.6.0.0/30").replace("Primary", "Secondary"),
    layer3("blue", "tiny", "10.5.0.0/24", 25).replace("Primary", "Secondary"),
    *(
        workload(name, f"w{number}", f"node{number}", networks)
        for name, chosen in SELECTIONS.items()
        for number, networks in enumerate(chosen, start=1)
    ),
]
SETS = st.sampled_from(["one", "two"])
NEARLY_ALL = st.sets(st.sampled_from(PARTS), max_size=6).map(
    lambda left_out: "".join(part for part in PARTS if part not in left_out)
)
STEPS = st.lists(st.tuples(SETS, st.sets(st.sampled_from(range(len(PARTS))))), min_size=1, max_size=6)


def check(snapshot):
    plan = build_plan(snapshot)
    for name, workload_ in plan["workloads"].items():
        interfaces = workload_["interfaces"]
        assert all(one["addresses"] and one["mac"] for one in interfaces), name
        assert sum(one["role"] == "primary" for one in interfaces) == 1, name
        labelled = "k8s.ovn.org/primary-user-defined-network" in snapshot.objects[
            f"Namespace/{workload_['namespace']}"
        ].labels  # fmt: skip
        assert (interfaces[0]["role"] == "infrastructure-locked") == labelled, name
    primaries = [
        (name, one["object"])
        for one in plan["networks"].values()
        if one["role"] == "Primary"
        for name in one["namespaces"]
    ]
    assert len({name for name, _owner in primaries}) == len(primaries)
    needed = {(one["network"], workload_["node"]) for workload_ in plan["workloads"].values()
              for one in workload_["interfaces"]}  # fmt: skip
    for node in plan["nodes"]:
        assert render_northbound(plan, node)
        for name, network in plan["networks"].items():
            leaving = name != "default" and snapshot.objects[network["object"]].status.get("leavingNodes", {})
            assert is_on(network, node) == (name == "default" or (name, node) in needed or node in leaving)
    for network in wanted_networks(snapshot).values():
        if not network.is_default:
            conditions = snapshot.objects[network.object_key].status["conditions"]
            types = [one["type"] for one in conditions]
            assert len(types) == len(set(types))
            assert {"NetworkCreated", "NetworkReady"} <= set(types)


@settings(max_examples=60, deadline=None)
@given(STEPS, st.sampled_from([0, 10**9]))
def test_any_sequence_of_manifests(steps, grace_period):
    chosen_settings = {"dynamic_networks_grace_period": grace_period}
    empty = stored("", settings=chosen_settings)
    snapshot = empty
    for number, (manifest_set, chosen) in enumerate(steps):
        text = "".join(PARTS[part] for part in sorted(chosen))
        now = f"2026-01-01T00:00:{number:02}Z"
        after, problems = decide(text, snapshot, manifest_set=manifest_set, settings=chosen_settings, now=now)
        if problems:
            assert all(problem.rule and problem.remedy for problem in problems)
            continue
        again, problems = decide(
            text, after, manifest_set=manifest_set, settings=chosen_settings, now="2027-01-01T00:00:00Z"
        )
        assert [str(problem) for problem in problems if "is being deleted since" not in str(problem)] == []
        assert problems or again == after
        check(after)
        snapshot = after
    for manifest_set in ("one", "two", "one"):
        snapshot = stored("", snapshot, manifest_set=manifest_set, settings=chosen_settings)
    assert snapshot.objects == empty.objects
    assert snapshot.allocations == empty.allocations


@settings(max_examples=30, deadline=None)
@given(st.lists(NEARLY_ALL, min_size=1, max_size=3))
def test_running_workloads_are_not_stopped_by_other_changes(steps):
    snapshot = stored("".join(part for part in PARTS if "tiny" not in part))
    for text in steps:
        after, problems = decide(text, snapshot)
        if problems:
            continue
        running = {workload.key for workload in running_workloads(snapshot)}
        assert not [key for key in running & set(after.objects) if is_pending(after.objects[key])]
        check(after)
        snapshot = after
