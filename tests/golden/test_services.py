# SPDX-License-Identifier: Apache-2.0
"""Load balancers of the services that every network may reach."""

from __future__ import annotations

from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from ansible_collections.heddle.ovn.plugins.module_utils.render.northbound import render_northbound
from tests.pipeline import decide, with_gateways

RESOLVER = """
apiVersion: v1
kind: Namespace
metadata: {name: dns}
---
apiVersion: heddle.dev/v1
kind: Workload
metadata: {name: resolver, namespace: dns}
spec: {node: node1}
"""
DNS = {
    "name": "kube-system/kube-dns",
    "address": "10.96.0.10",
    "ports": [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53, "target": 5353}],
    "endpoints": ["dns/resolver"],
}
API = {
    "name": "default/kubernetes",
    "address": "fd00:10:96::1",
    "ports": [{"protocol": "TCP", "port": 443, "target": 6443}],
    "endpoints": ["2001:db8::b", "2001:db8::c"],
}


def load_balancers(node: str) -> dict:
    after, problems = decide(RESOLVER, hosts=with_gateways("shared"), settings={"shared_services": [DNS, API]})
    assert not problems
    rows = render_northbound(build_plan(after), node)
    return {row.key: (row.parent.table, row.columns) for row in rows if row.table == "Load_Balancer"}


def test_load_balancer_per_protocol_on_switch_and_gateway_router():
    found = load_balancers("node1")
    assert len(found) == 2 * 3
    parent, columns = found["Service_kube-system/kube-dns_TCP_node_switch_node1"]
    assert parent == "Logical_Switch"
    assert columns["vips"] == {"10.96.0.10:53": "10.244.0.3:5353"}
    assert columns["protocol"] == "tcp"
    parent, columns = found["Service_kube-system/kube-dns_UDP_node_router_node1"]
    assert parent == "Logical_Router"
    assert columns["vips"] == {"10.96.0.10:53": "10.244.0.3:53"}


def test_a_gateway_router_reaches_its_own_node_by_the_masquerade_address():
    name = "Service_default/kubernetes_TCP_{}_IPv6"
    both = "[2001:db8::b]:6443,[2001:db8::c]:6443"
    first = load_balancers("node1")
    assert first[name.format("node_switch_node1")][1]["vips"] == {"[fd00:10:96::1]:443": both}
    assert first[name.format("node_router_node1")][1]["vips"] == {
        "[fd00:10:96::1]:443": "[fd69::2]:6443,[2001:db8::c]:6443"
    }
    assert load_balancers("node3")[name.format("node_router_node3")][1]["vips"] == {"[fd00:10:96::1]:443": both}
