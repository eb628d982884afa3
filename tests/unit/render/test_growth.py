# SPDX-License-Identifier: Apache-2.0
"""Rows and flows of a host, and what a run renders for a trial, grow with the networks and hosts, and not faster."""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.render import rehearsal
from ansible_collections.heddle.ovn.plugins.module_utils.render.gateway.bridge_flows import render_bridge_flows
from tests.pipeline import THREE_NODES, layer2, namespace, plan_of, with_gateways, workload

POOL = (
    "---\napiVersion: heddle.dev/v1\nkind: LoadBalancerPool\nmetadata: {name: pool}\n"
    "spec: {subnets: [192.0.2.128/25]}\n"
)
SERVICE = (
    "---\napiVersion: v1\nkind: Service\nmetadata: {{name: web, namespace: {name}}}\n"
    "spec: {{type: LoadBalancer, selector: {{}}, ports: [{{port: 80}}], {address}}}\n"
)


def tenant(number: int, address: str) -> str:
    name = f"t{number}"
    network = layer2(name, "net", "10.0.0.0/24") + workload(name, "w", "node1")
    return namespace(name) + network + SERVICE.format(name=name, address=address.format(number=number))


@pytest.mark.parametrize("address", ["", "externalIPs: [198.51.100.{number}]"], ids=["load balancers", "external IPs"])
@pytest.mark.parametrize("mode", ["shared", "local"])
def test_flows_grow_with_networks_that_have_addresses(mode, address):
    def flows(count: int) -> int:
        text = POOL + "".join(tenant(number, address) for number in range(1, count + 1))
        plan = plan_of(text, hosts=with_gateways(mode))
        return sum(len(render_bridge_flows(plan, node)) for node in plan["nodes"])

    four, eight, sixteen = flows(4), flows(8), flows(16)
    assert sixteen - eight == 2 * (eight - four)


def test_a_rehearsal_renders_two_hosts_workloads_for_each(monkeypatch):
    hosts = {
        f"node{number}": {**THREE_NODES["node1"], "chassis": f"c{number}", "encap_ips": [f"198.18.1.{number}"]}
        for number in range(1, 11)
    }
    text = namespace("plain", primary=False) + "".join(workload("plain", f"w{name}", name) for name in hosts)
    seen = []
    limited = rehearsal.plan_of_networks
    monkeypatch.setattr(
        rehearsal, "plan_of_networks", lambda plan, names: seen.append(len(plan["workloads"])) or limited(plan, names)
    )
    assert not rehearsal.unrenderable(plan_of(text, hosts=hosts))
    assert seen == [2] * len(hosts)
