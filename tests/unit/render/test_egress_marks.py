# SPDX-License-Identifier: Apache-2.0
"""Marks of packets with an EgressIP: none where a tunnel may follow, whose route userspace finds by the mark."""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.render import render_northbound
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
