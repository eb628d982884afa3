# SPDX-License-Identifier: Apache-2.0
"""The packet size that a network's routers forward, in ovn-northd's flows."""

from __future__ import annotations

import re

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.render.gateway.bridge_flows import render_bridge_flows
from tests.live.topology.zone import Zone
from tests.pipeline import EVERYWHERE, layer2, namespace, plan_of, with_gateways

ETHERNET = 14
LARGER = re.compile(r"check_pkt_larger\((\d+)\)")


def manifests(mtu: int) -> str:
    layer3 = (
        "---\napiVersion: k8s.ovn.org/v1\nkind: UserDefinedNetwork\nmetadata: {name: net, namespace: deep}\n"
        f"spec: {{topology: Layer3, layer3: {{role: Primary, mtu: {mtu}, subnets: [{{cidr: 10.60.0.0/16}}]}}}}\n"
    )
    flat = layer2("flat", "net", "10.50.0.0/16").replace("role: Primary", f"role: Primary, mtu: {mtu}")
    return namespace("flat") + flat + namespace("deep") + layer3


def limits(southbound, router: str) -> dict[str, set[int]]:
    """Return what a router compares packets with, by the port that they leave by, less the Ethernet header."""
    found: dict[str, set[int]] = {}
    for flow in southbound.rows("Logical_Flow", "match", "actions"):
        size, port = LARGER.search(flow["actions"]), re.search(r'outport == "([^"]+)"', flow["match"])
        if size and port and router in port[1]:
            found.setdefault(port[1], set()).add(int(size[1]) - ETHERNET)
    return found


@pytest.mark.parametrize("mtu", [1300, 1400, 8900])
def test_network_mtu_inside_and_cluster_mtu_for_external_packets(tools, northbound, southbound, northd, mtu):
    Zone(tools, northbound, southbound, manifests(mtu), with_gateways("shared"), EVERYWHERE)
    for network, inward, outward in (
        ("deep_net", "rtos-deep_net_node1", "rtoj-GR_deep_net_node1"),
        ("flat_net", "trtos-flat_net_ovn_layer2_switch", "rtotr-GR_flat_net_node1"),
    ):
        found = limits(southbound, network)
        assert found[inward] == {mtu}, network
        assert found[outward] == {min(mtu, 1400)}, network


def test_host_fragments_to_the_network_mtu_in_local_mode():
    plan = plan_of(manifests(1300), hosts=with_gateways("local"), settings=EVERYWHERE)
    sizes = {
        flow.network: int(size[1]) - ETHERNET
        for flow in render_bridge_flows(plan, "node1")
        if (size := LARGER.search(flow.actions))
    }
    assert sizes == {"default": 1400, "flat_net": 1300, "deep_net": 1300}
