# SPDX-License-Identifier: Apache-2.0
"""Rows and flows of a host, and what a run renders for a trial, grow with the networks and hosts, and not faster."""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.operations import admission_service
from ansible_collections.heddle.ovn.plugins.module_utils.render import rehearsal
from ansible_collections.heddle.ovn.plugins.module_utils.render.common.node_network import NodeNetwork
from ansible_collections.heddle.ovn.plugins.module_utils.render.gateway.bridge_flows import render_bridge_flows
from ansible_collections.heddle.ovn.plugins.module_utils.render.host import egress_service_rules
from ansible_collections.heddle.ovn.plugins.module_utils.render.host.links_and_routes import render_host_network
from ansible_collections.heddle.ovn.plugins.module_utils.render.northbound import render_northbound
from tests.pipeline import EVERYWHERE, labelled, layer2, layer3, namespace, plan_of, with_gateways, workload

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


def fleet(hosts: int) -> dict:
    described = with_gateways("shared")["node1"]
    return {
        f"node{number}": {
            **described, "chassis": f"c{number}", "encap_ips": [f"198.18.1.{number}"],
            "gateway": {**described["gateway"], "addresses": [f"192.0.2.{number}/24", f"2001:db8::{number}/64"]},
        }
        for number in range(1, hosts + 1)
    }  # fmt: skip


@pytest.fixture(name="rehearsed")
def _rehearsed(monkeypatch) -> list[dict]:
    """The plans with which a rehearsal renders hosts."""
    seen = []
    limited = rehearsal.plan_of_networks
    monkeypatch.setattr(rehearsal, "plan_of_networks", lambda plan, names: seen.append(plan) or limited(plan, names))
    return seen


def test_a_rehearsal_renders_two_hosts_workloads_for_each(rehearsed):
    hosts = fleet(10)
    text = namespace("plain", primary=False) + "".join(workload("plain", f"w{name}", name) for name in hosts)
    assert not rehearsal.unrenderable(plan_of(text, hosts=hosts))
    assert [len(plan["workloads"]) for plan in rehearsed] == [2] * len(hosts)


NETWORKS = {
    "layer2": layer2("t", "net", "10.0.0.0/16"),
    "layer3": layer3("t", "net", "10.0.0.0/16", 24),
}


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_a_rehearsal_of_a_network_grows_with_its_hosts(monkeypatch, network):
    """And not with their square: each host has rows and flows for each other one, and each workload."""
    seen = []
    for name in ("_flaw_of_row", "_flaw_of_word"):
        good = getattr(rehearsal, name)
        monkeypatch.setattr(rehearsal, name, lambda one, good=good: seen.append(one) or good(one))

    def rendered(count: int) -> int:
        hosts = fleet(count)
        text = namespace("t") + network + "".join(workload("t", f"w{name}", name) for name in hosts)
        plan = plan_of(text, hosts=hosts)
        seen.clear()
        assert not rehearsal.unrenderable(plan)
        return len(seen)

    four, eight, sixteen = rendered(4), rendered(8), rendered(16)
    assert sixteen - eight == 2 * (eight - four)


class Name(str):
    """A name of a network that counts its comparisons."""

    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other):
        Name.compared += 1
        return str.__eq__(self, other)


def test_a_host_looks_at_no_networks_of_others(monkeypatch):
    monkeypatch.setattr(rehearsal, "_flaw", lambda *_given: "")

    def looks(count: int) -> int:
        hosts, text = fleet(count), ""
        for number, host in enumerate(hosts):
            name = f"t{number}"
            text += namespace(name) + layer2(name, "net", "10.0.0.0/24") + workload(name, "w", host)
        plan = plan_of(text, hosts=hosts)
        places = {Name(name): None for name in plan["networks"]}
        Name.compared = 0
        assert not rehearsal.unrenderable(plan, places)
        return Name.compared

    four, eight, sixteen = looks(4), looks(8), looks(16)
    assert sixteen - eight == 2 * (eight - four)


class Looked(list):
    """Names of hosts that count how many are looked at."""

    looks = 0

    def __iter__(self):
        for one in super().__iter__():
            Looked.looks += 1
            yield one

    def __contains__(self, name):
        return any(one == name for one in self)


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_for_a_network_on_no_host_the_first_that_can_have_it_is_found_without_the_others(network):
    def looks(count: int) -> int:
        hosts = fleet(count)
        plan = plan_of(namespace("t") + network, hosts=hosts)
        Looked.looks = 0
        assert rehearsal._on_some_node(plan, {"t_net"}, Looked(hosts))["networks"]["t_net"]["nodes"] == ["node1"]
        # But for one walk for all networks.
        return Looked.looks - count

    assert looks(4) == looks(16)


def test_the_other_hosts_of_a_network_are_found_as_often_for_many_workloads_as_for_few(monkeypatch):
    found = []
    good = NodeNetwork.remotes.fget
    monkeypatch.setattr(NodeNetwork, "remotes", property(lambda view: found.append(view) or good(view)))

    def count(workloads: int) -> int:
        text = "".join(workload("t", f"w{number}", "node2") for number in range(workloads))
        plan = plan_of(namespace("t") + NETWORKS["layer2"] + text, hosts=fleet(3), settings=EVERYWHERE)
        found.clear()
        ports = [row for row in render_northbound(plan, "node1") if row.columns.get("type") == "remote"]
        assert sum(row.key.startswith("t.net_t_w") for row in ports) == workloads
        return len(found)

    assert count(2) == count(8)


def test_a_workload_that_changes_is_rehearsed_on_its_host_and_the_next(rehearsed):
    hosts = fleet(10)
    text = namespace("t") + NETWORKS["layer2"] + "".join(workload("t", f"w{name}", name) for name in hosts)
    before, after = (plan_of(text + workload("t", more, "node4"), hosts=hosts) for more in ("former", "later"))
    assert not rehearsal.unrenderable(after, admission_service._to_rehearse(before, after))
    assert [set(plan["networks"]["t_net"]["nodes"]) & {"node4", "node5"} for plan in rehearsed] == [
        {"node4"}, {"node4", "node5"},
    ]  # fmt: skip
    assert all("t/later" in plan["workloads"] for plan in rehearsed)


def test_a_workload_that_changes_is_rehearsed_where_its_packets_leave(rehearsed):
    hosts = labelled(fleet(10))
    egress = (
        "---\napiVersion: k8s.ovn.org/v1\nkind: EgressIP\nmetadata: {name: e}\n"
        "spec: {egressIPs: [192.0.2.200], namespaceSelector: {}}\n"
    )
    text = namespace("t") + NETWORKS["layer2"] + egress + "".join(workload("t", f"w{name}", name) for name in hosts)
    plan = plan_of(text, hosts=hosts)
    holder = plan["egress_ips"]["e"]["addresses"][0]["node"]
    changed = "node4" if holder not in ("node4", "node5") else "node8"
    assert not rehearsal.unrenderable(plan, {"t_net": {changed}})
    assert all(holder in seen["networks"]["t_net"]["nodes"] for seen in rehearsed)
    # The host, the next one, and the holder, with all workloads that leave by it.
    assert sorted(len(seen["workloads"]) for seen in rehearsed) == [2, 2, len(hosts)]


def test_a_rehearsal_with_egress_addresses_on_all_hosts_has_few_workloads_for_each(rehearsed):
    """Its own, those of the host before it, and those that leave by it; not those of all hosts that have addresses."""
    hosts, text = labelled(fleet(10)), ""
    for number, name in enumerate(hosts):
        selector = f"{{matchLabels: {{kubernetes.io/metadata.name: p{number}}}}}"
        text += namespace(f"p{number}", primary=False) + workload(f"p{number}", "w", name)
        text += (
            f"---\napiVersion: k8s.ovn.org/v1\nkind: EgressIP\nmetadata: {{name: e{number}}}\n"
            f"spec: {{egressIPs: [192.0.2.{100 + number}], namespaceSelector: {selector}}}\n"
        )
    plan = plan_of(text, hosts=hosts)
    assert {one["addresses"][0]["node"] for one in plan["egress_ips"].values()} == hosts.keys()
    assert not rehearsal.unrenderable(plan)
    assert max(len(seen["workloads"]) for seen in rehearsed) <= 3


def test_a_host_without_tables_of_egress_services_looks_at_no_addresses_of_others(monkeypatch):
    """Else each host compared those of all hosts with the subnets of the default network."""

    def looked(_view):
        raise AssertionError

    monkeypatch.setattr(egress_service_rules, "addresses_of_nodes", looked)
    plan = plan_of(namespace("plain", primary=False), hosts=fleet(2))
    assert render_host_network(plan, "node1").routes
