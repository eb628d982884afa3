# SPDX-License-Identifier: Apache-2.0
"""The sender of echoes to a migrating workload, and its figures."""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.serialization import pack
from ansible_collections.heddle.ovn.plugins.module_utils.traffic.watching import chosen_peer, echoes, summary
from tests.module_entry import run_module
from tests.pipeline import layer2, namespace, plan_of, workload

NETWORK = namespace("red") + layer2("red", "net", "10.0.0.0/24", "fd00:10::/64")
MACHINE = workload("red", "vm", "node1, kind: vm")
OTHER = namespace("blue") + layer2("blue", "net", "10.9.0.0/24") + workload("blue", "far", "node3")


@pytest.mark.parametrize(
    ("others", "peer"),
    [
        ((("a", "node1"), ("b", "node2"), ("c", "node3")), "red/c"),
        ((("a", "node1"), ("b", "node2")), "red/a"),
        ((), None),
    ],
)
def test_choice_of_the_sender(others, peer):
    plan = plan_of(NETWORK + MACHINE + OTHER + "".join(workload("red", *one) for one in others))
    assert chosen_peer(plan, "red/vm", "node2") == peer


def test_echoes_go_to_all_its_addresses_or_to_those_named():
    plan = plan_of(NETWORK + MACHINE + workload("red", "c", "node3"))
    task = echoes(plan, "red/vm", "red/c", [])
    assert {flow.address for flow in task.flows} == {"10.0.0.4", "fd00:10::4"}
    assert {flow.interval for flow in task.flows} == {10}
    assert task.sources == {"red/c": "red_c"}
    assert [flow.address for flow in echoes(plan, "red/vm", "red/c", ["10.0.0.9"]).flows] == ["10.0.0.9"]


def test_reported_figures():
    segment = {"address": "10.0.0.3", "sent": 90, "lost": 9, "gaps": [[1.0, 1.1, 9], [4.0, 4.25, 3]], "slowest": 0.004}
    reported = summary({"segments": [segment, {**segment, "address": "::1", "lost": 0, "gaps": []}]})
    assert reported["10.0.0.3"] == {"sent": 90, "lost": 9, "longest_gap_ms": 250, "slowest_ms": 4}
    assert reported["::1"]["longest_gap_ms"] == 10
    assert summary(None) == {}


def test_the_module_names_the_peer_on_every_host_and_starts_nothing_on_others(tmp_path):
    plan = plan_of(NETWORK + MACHINE + workload("red", "c", "node3"))
    arguments = {"document": pack(plan), "node": "node1", "workload": "red/vm", "target": "node2"}
    found = run_module("migration_watch", tmp_path, state="started", **arguments)
    assert (found["changed"], found["peer"]) == (False, "red/c")
    alone = {**arguments, "document": pack(plan_of(NETWORK + MACHINE))}
    found = run_module("migration_watch", tmp_path, state="started", **alone)
    assert "no other workload on a network of red/vm can send to it" in found["msg"]
