# SPDX-License-Identifier: Apache-2.0
"""The order of a host's parts, and messages about refused networks."""

import json

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.agent import host_firewall, node_gateway, zone
from ansible_collections.heddle.ovn.plugins.module_utils.agent.context import NodeContext
from ansible_collections.heddle.ovn.plugins.module_utils.agent.module_runner import UserError, refusal
from ansible_collections.heddle.ovn.plugins.module_utils.common.change import Outcome
from ansible_collections.heddle.ovn.plugins.module_utils.common.errors import OpenFlowError
from ansible_collections.heddle.ovn.plugins.module_utils.common.serialization import pack
from tests.pipeline import layer2, namespace, plan_of, with_gateways, workload

PLAN = plan_of(
    namespace("red") + layer2("red", "net", "10.1.0.0/24") + namespace("blue") + layer2("blue", "net", "10.2.0.0/24"),
    hosts=with_gateways("shared"),
)


def run_zone(monkeypatch, tmp_path, **parts):
    """Run the parts given, or ones that do nothing."""
    nothing = dict.fromkeys(zone.PARTS, lambda _context, _plan, *_refused: Outcome())
    monkeypatch.setattr(zone, "PARTS", {**nothing, **parts})
    context = NodeContext("node1", str(tmp_path / "plan.json"), write=True, document=pack(PLAN))
    return zone.apply_zone(context, PLAN, list(nothing))


def test_other_parts_are_applied_without_the_refused_network(monkeypatch, tmp_path):
    seen = []
    outcome = run_zone(
        monkeypatch,
        tmp_path,
        topology=lambda _context, _plan: Outcome(refused=(("red_net", "a row"),)),
        gateway=lambda _context, _plan: Outcome(refused=(("red_net", "a port"), ("blue_net", "a route"))),
        workloads=lambda _context, _plan, refused: seen.append(refused) or Outcome(),
    )
    assert seen == [{"red_net", "blue_net"}]
    assert refusal(outcome) == "network red_net: a row\nnetwork blue_net: a route"


def test_failure_after_a_refusal_reports_both(monkeypatch, tmp_path):
    def fail(_context, _plan):
        raise UserError("no bridge")

    with pytest.raises(UserError, match="network red_net: a row\nno bridge"):
        run_zone(
            monkeypatch, tmp_path, topology=lambda _context, _plan: Outcome(refused=(("red_net", "a row"),)),
            gateway=fail,
        )  # fmt: skip


def service_plan(*workloads: str) -> dict:
    text = namespace("plain", primary=False)
    for name in workloads:
        text += workload("plain", name, "node2").replace("plain}", "plain, labels: {app: web}}")
    text += "---\napiVersion: heddle.dev/v1\nkind: LoadBalancerPool\nmetadata: {name: p}\n"
    text += "spec: {subnets: [192.0.2.200/31]}\n"
    text += "---\napiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: plain}\n"
    text += "spec: {type: LoadBalancer, selector: {app: web}, ports: [{port: 80}]}\n"
    text += "---\napiVersion: k8s.ovn.org/v1\nkind: EgressService\nmetadata: {name: web, namespace: plain}\n"
    return plan_of(text, hosts=with_gateways("shared"))


def test_translation_is_there_before_and_after_router_policies(monkeypatch, tmp_path):
    """A workload that is no endpoint any more is translated until no policy leads it to this host."""
    before, after = service_plan("a", "b"), service_plan("b", "c")
    addresses = {
        name: next(one for one in plan["workloads"][f"plain/{name}"]["interfaces"][0]["addresses"] if "." in one)[:-3]
        for name, plan in (("a", before), ("b", after), ("c", after))
    }
    seen = []

    def load(firewall, *, write, run):
        [found] = [one.elements for one in firewall.maps if one.name == "egress-services-snat-v4"]
        seen.append([one.partition(" : ")[0] for one in found])
        return Outcome()

    monkeypatch.setattr(host_firewall, "reconcile_firewall", load)
    parts = {name: lambda _context, _plan, *_refused, name=name: seen.append(name) or Outcome() for name in zone.PARTS}
    monkeypatch.setattr(zone, "PARTS", parts)
    path = tmp_path / "plan.json"
    context = NodeContext("node1", str(path), write=True, document=pack(after))
    zone.apply_zone(context, after, list(zone.PARTS))
    assert seen == [*zone.PARTS]
    path.write_text(json.dumps(before))
    zone.apply_zone(context, after, list(zone.PARTS))
    assert seen[3:] == [sorted(set(addresses.values())), *zone.PARTS]


@pytest.mark.parametrize("write", [True, False])
def test_network_with_a_missing_port_is_left_out_of_flows(monkeypatch, write):
    tried = []

    def flows(plan, _node, *, write, trace):
        tried.append(set(plan["networks"]))
        if "red_net" in plan["networks"]:
            raise OpenFlowError("no port", frozenset({"red_net"}))
        return Outcome()

    monkeypatch.setattr(node_gateway, "_flows_of", flows)
    if not write:
        with pytest.raises(OpenFlowError):
            node_gateway._flows(PLAN, "node1", write=False)
        return
    outcome = node_gateway._flows(PLAN, "node1", write=True)
    assert tried == [{"default", "red_net", "blue_net"}, {"default", "blue_net"}]
    assert outcome.refused == (("red_net", "no port"),)


def test_common_flows_are_never_left_out(monkeypatch):
    def flows(*_arguments, **_more):
        raise OpenFlowError("no bridge")

    monkeypatch.setattr(node_gateway, "_flows_of", flows)
    with pytest.raises(OpenFlowError, match="no bridge"):
        node_gateway._flows(PLAN, "node1", write=True)
