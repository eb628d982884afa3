# SPDX-License-Identifier: Apache-2.0
"""What external hosts send to node ports and load balancers during a change, and that they do."""

from __future__ import annotations

import json
import socket

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.agent.context import NodeContext
from ansible_collections.heddle.ovn.plugins.module_utils.common.polling import attempts
from ansible_collections.heddle.ovn.plugins.module_utils.common.serialization import pack
from ansible_collections.heddle.ovn.plugins.module_utils.netlink import kernel
from ansible_collections.heddle.ovn.plugins.module_utils.traffic import control
from ansible_collections.heddle.ovn.plugins.module_utils.traffic.flows import (
    NEW,
    TO_LOAD_BALANCER,
    TO_NODE_PORT,
    chosen_workloads,
    entrance_flows,
)
from lab.ports import free
from tests.pipeline import layer2, layer3, namespace, plan_of, with_gateways, workload

OUTSIDE = ["192.0.2.20", "2001:db8::20"]
ENDPOINTS = ("red/on-node1", "red/on-node2")
TENANT = (
    namespace("red") + layer2("red", "net", "10.0.0.0/24", "fd00:10::/64")
    + "".join(workload("red", f"on-{node}", node).replace("red}", "red, labels: {app: web}}")
              for node in ("node1", "node2"))
    + "---\napiVersion: heddle.dev/v1\nkind: LoadBalancerPool\nmetadata: {name: pool}\n"
    "spec: {subnets: [192.0.2.200/29, '2001:db8::a00/125']}\n"
)  # fmt: skip


def service(more: str = "", ports: str = "{port: 80, nodePort: 30000}") -> str:
    return (
        "---\napiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: red}\nspec: {type: LoadBalancer, "
        f"ipFamilyPolicy: PreferDualStack, selector: {{app: web}}, ports: [{ports}]{more}}}\n"
    )


def planned(text: str) -> dict:
    return plan_of(text, hosts=with_gateways("shared"))


def sent(text: str, addresses=OUTSIDE) -> list:
    plan = planned(text)
    return entrance_flows(plan, chosen_workloads(plan), "external", addresses)


def test_an_external_host_connects_by_each_node_and_the_load_balancer_in_both_families():
    found = sent(TENANT + service())
    assert {(one.protocol, one.source, one.endpoints, one.network) for one in found} == {
        (NEW, "external", ENDPOINTS, "red_net")
    }
    nodes = {(one.target, one.family, one.port) for one in found if one.kind == TO_NODE_PORT}
    assert nodes == {(f"red/web of node{one}", version, 30000) for one in (1, 2, 3) for version in (4, 6)}
    balanced = [(one.target, one.family, one.port) for one in found if one.kind == TO_LOAD_BALANCER]
    assert balanced == [("red/web", 4, 80), ("red/web", 6, 80)]
    assert len(found) == len({one.name for one in found}) == 8
    assert {one.family for one in sent(TENANT + service(), OUTSIDE[:1])} == {4}


@pytest.mark.parametrize(
    "text",
    [
        service(", externalTrafficPolicy: Local"),
        service(", loadBalancerSourceRanges: [192.0.2.20/32]"),
        service(", allocateLoadBalancerNodePorts: false", "{port: 80}"),
        service(ports="{port: 80, protocol: UDP}"),
        service().replace("{app: web}", "{app: none}"),
        service().replace("LoadBalancer", "ClusterIP").replace(", nodePort: 30000", ""),
    ],
)
def test_services_whose_answer_depends_on_more_are_not_measured(text):
    assert sent(TENANT + text) == []


def test_a_network_that_does_not_change_is_not_measured_this_way():
    tenant = TENANT.replace(
        layer2("red", "net", "10.0.0.0/24", "fd00:10::/64"), layer3("red", "net", "10.0.0.0/16", 24)
    )
    assert sent(tenant + service()) == []


def test_no_flow_sends_more_often_than_asked(monkeypatch):
    monkeypatch.setattr(kernel, "PYROUTE2_IMPORT_ERROR", None)
    monkeypatch.setattr(control.Process, "start", lambda _self, task, *_more, **_options: tasks.append(task) or True)
    tasks, external = [], {"external": ["127.0.0.1"]}
    for node in ("node1", "external"):
        context = NodeContext(node, "/nonexistent", write=True, document=pack(planned(TENANT + service())))
        for interval in (10, 100):
            control.traffic(context, control.Request("started", 7655, 60, external, interval))
    found = [{flow.protocol: flow.interval for flow in task.flows} for task in tasks]
    usual = {"udp": 10, "icmp": 50, "long tcp": 100, "new tcp": 100}
    assert found == [usual, dict.fromkeys(usual, 100), {"new tcp": 200}, {"new tcp": 200}]


def test_an_external_host_sends_by_the_plan_that_it_is_given(tmp_path):
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        plan = planned(TENANT + service())
        # Nothing listens there, so connections are refused, as by an endpoint without its application.
        held = {"address": "127.0.0.1", "node": "node1"}
        entry = plan["services"]["red_net"]["red/web"]
        entry["external"]["load_balancer"] = [held]
        entry["ports"][0]["port"] = server.getsockname()[1]
        for node in plan["nodes"].values():
            node["gateway"]["addresses"] = []
        port = free()
        context = NodeContext("external", "/nonexistent", write=True, document=pack(plan))
        started = control.Request("started", port, 60, {"external": ["127.0.0.1"]}, 10)
        assert control.traffic(context, started, str(tmp_path))["changed"]
        file = tmp_path / "traffic-figures.json"
        try:
            for _attempt in attempts(600):
                if file.exists() and any(one["sent"] for one in json.loads(file.read_text())["segments"]):
                    break
        finally:
            stopped = control.Request("stopped", port, 60, {}, 10)
            figures = control.traffic(context, stopped, str(tmp_path))["figures"]
    [segment] = figures["segments"]
    assert (segment["kind"], segment["source"], segment["lost"]) == (TO_LOAD_BALANCER, "external", 0)
    assert segment["sent"] > 0
    assert figures["problems"] == []
