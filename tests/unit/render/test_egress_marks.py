# SPDX-License-Identifier: Apache-2.0
"""Marks of packets with an EgressIP: none where a tunnel may follow, whose route userspace finds by the mark."""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.render.common.handover import (
    prepared_plan,
    released_plan,
    rerouting_plan,
)
from ansible_collections.heddle.ovn.plugins.module_utils.render.gateway.bridge_flows import render_bridge_flows
from ansible_collections.heddle.ovn.plugins.module_utils.render.northbound import render_northbound
from tests.pipeline import labelled, layer2, layer3, namespace, plan_of, with_gateways, workload
from tests.unit.controllers.test_egress_ips import egress_ip

HOSTS = labelled(with_gateways("shared"))
LAYER2, LAYER3 = layer2("red", "net", "10.0.0.0/24"), layer3("red", "net", "10.128.0.0/16", 24)
LEGACY = {"layer2_topology": "gateway-router"}
WORKLOADS = "".join(workload("red", f"on-{node}", node) for node in ("node1", "node3"))


def rows(network: str, settings: dict | None, node: str, table: str) -> list[dict]:
    """Return the columns of a node's rows; node1 and node2 hold an address, node3 does not."""
    text = namespace("red") + network + WORKLOADS + egress_ip("web", "192.0.2.100", "192.0.2.101")
    plan = plan_of(text, hosts=HOSTS, settings=settings)
    return [row.columns for row in render_northbound(plan, node) if row.table == table and row.network == "red_net"]


def rerouted(network: str, settings: dict | None, node: str) -> list[tuple[int, dict]]:
    policies = [row for row in rows(network, settings, node, "Logical_Router_Policy") if row["action"] == "reroute"]
    return [(len(row["nexthops"]), row["options"]) for row in policies if row["priority"] == 100]


@pytest.mark.parametrize("network", [LAYER2, LAYER3], ids=["Layer2", "Layer3"])
@pytest.mark.parametrize("node", ["node1", "node3"])
def test_packets_are_marked_by_the_node_that_they_leave_by(network, node):
    assert rerouted(network, None, node) == [(2, {})]


def test_gateway_router_on_the_switch_marks_what_leaves_here():
    assert rerouted(LAYER2, LEGACY, "node1")[0] == (1, {"pkt_mark": "50000"})
    assert rerouted(LAYER2, LEGACY, "node3")[0] == (2, {})


@pytest.mark.parametrize("network", [LAYER2, LAYER3], ids=["Layer2", "Layer3"])
def test_replies_within_the_network_are_not_marked(network):
    matches = [row["match"] for row in rows(network, None, "node1", "QoS") if row["action"] == {"mark": 42}]
    assert matches
    for match in matches:
        assert "ip4.dst != 10." in match
        assert "ip4.dst != 100.65.0.0/16" in match


def marked(plan: dict, node: str) -> set[str]:
    """The workload addresses that the gateway router of a node gives the mark of the address that moves."""
    [mark] = [entry["mark"] for entry in plan["egress_ips"].values()]
    return {
        row.columns["match"].split()[2]
        for row in render_northbound(plan, node)
        if row.table == "Logical_Router_Policy"
        and row.columns["priority"] == 95
        and row.columns["options"] == {"pkt_mark": str(mark)}
    }


def first_actions(plan: dict, node: str, mark: int) -> str:
    """What the provider bridge of a node does with packets that have a mark."""
    flows = [flow for flow in render_bridge_flows(plan, node) if f"pkt_mark={mark:#x}" in flow.match]
    return max(flows, key=lambda flow: flow.priority).actions


@pytest.mark.parametrize("network", [LAYER2, LAYER3], ids=["Layer2", "Layer3"])
def test_no_step_of_a_move_lets_packets_leave_with_the_address_of_a_node(network):
    """Hosts take a step at different moments: both mark what workloads of all nodes send, as long as one does."""
    text = namespace("red") + network + WORKLOADS + egress_ip("web", "192.0.2.100")
    before, after = (
        plan_of(text, hosts={one: HOSTS[one] if one == name else {**HOSTS[one], "labels": {}} for one in HOSTS})
        for name in ("node1", "node2")
    )
    moved = {"192.0.2.100": "node1"}
    addresses = marked(before, "node1")
    assert len(addresses) == 2
    waiting = prepared_plan(after, "node2", moved)
    assert marked(waiting, "node2") == addresses
    [mark] = [entry["mark"] for entry in waiting["egress_ips"].values()]
    assert first_actions(waiting, "node2", mark) == "drop"
    steps = (
        released_plan(before, after, "node1", moved),
        released_plan(prepared_plan(after, "node1", moved), after, "node1", moved),
        rerouting_plan(after, "node1", moved),
    )
    for plan in steps:
        assert marked(plan, "node1") == addresses
        mark = next(iter(plan["egress_ips"].values()))["mark"]
        assert first_actions(plan, "node1", mark) == "drop"
    assert rerouting_plan(after, "node2", moved) == rerouting_plan(after, "node3", moved) == after
    assert not marked(after, "node1")


def test_a_move_of_other_addresses_needs_no_such_step():
    plan = plan_of(namespace("red") + LAYER2 + WORKLOADS + egress_ip("web", "192.0.2.100"), hosts=HOSTS)
    assert rerouting_plan(plan, "node1", {"192.0.2.200": "node1"}) is None


def test_workloads_leave_by_a_former_host_that_loses_the_network():
    """By the new plan the network is on hosts of its workloads and the new holder; the former one has it until then."""
    text = namespace("red") + LAYER2 + workload("red", "w", "node3") + egress_ip("web", "192.0.2.100")
    hosts = {one: HOSTS[one] if one == "node2" else {**HOSTS[one], "labels": {}} for one in HOSTS}
    after = plan_of(text, hosts=hosts, settings={"dynamic_networks_grace_period": 0})
    assert after["networks"]["red_net"]["nodes"] == ["node2", "node3"]
    moved = {"192.0.2.100": "node1"}
    prepared = prepared_plan(after, "node3", moved)
    assert prepared["networks"]["red_net"]["nodes"] == ["node1", "node2", "node3"]
    hops = {
        node: next(
            row.columns["nexthops"] for row in render_northbound(plan, "node3")
            if row.table == "Logical_Router_Policy" and row.columns["priority"] == 100
        )
        for node, plan in (("node1", prepared), ("node2", after))
    }  # fmt: skip
    assert hops["node1"] != hops["node2"]
    assert marked(prepared_plan(after, "node2", moved), "node2")
