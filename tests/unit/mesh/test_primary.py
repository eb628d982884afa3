# SPDX-License-Identifier: Apache-2.0
"""A primary MeshNetwork from its manifest to the plan, to its gateways on hosts, and to what is reported."""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.api import read_manifests
from ansible_collections.heddle.ovn.plugins.module_utils.controllers.conditions import condition
from ansible_collections.heddle.ovn.plugins.module_utils.mesh.forwarding import Gateway
from ansible_collections.heddle.ovn.plugins.module_utils.mesh_daemon.configuration import configuration_of
from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from ansible_collections.heddle.ovn.plugins.module_utils.render.gateway.bridge_flows import render_bridge_flows
from ansible_collections.heddle.ovn.plugins.module_utils.render.host.firewall import render_firewall
from ansible_collections.heddle.ovn.plugins.module_utils.render.host.links_and_routes import (
    render_host_network,
    render_management_ports,
)
from ansible_collections.heddle.ovn.plugins.module_utils.render.host.mesh import render_mesh_gateways
from ansible_collections.heddle.ovn.plugins.module_utils.render.host.netns import render_endpoints
from ansible_collections.heddle.ovn.plugins.module_utils.render.host.vswitch import render_workload_ports
from ansible_collections.heddle.ovn.plugins.module_utils.render.northbound import render_northbound
from ansible_collections.heddle.ovn.plugins.module_utils.render.rehearsal import unrenderable
from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations import external_expectations
from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.external_expectations import external_flows
from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.selection import ALL, Selection
from tests.pipeline import layer2, namespace, nodes, plan_of, stored, with_gateways, workload

SUBNETS = '10.9.0.0/24, "fd00:9::/64"'
HOSTS = with_gateways("shared")
WITHOUT_VRFS = {**HOSTS, "node2": with_gateways("shared", vrf=False)["node2"]}


def mesh(inside: str, subnets: str = SUBNETS, more: str = "") -> str:
    return (
        f"---\napiVersion: heddle.dev/v1\nkind: MeshNetwork\nmetadata: {{name: net, namespace: {inside}}}\n"
        f"spec: {{role: Primary, subnets: [{subnets}]{more}}}\n"
    )


RED = namespace("red") + mesh("red") + workload("red", "a", "node1") + workload("red", "b", "node2")
TENANTS = RED + namespace("blue") + mesh("blue") + workload("blue", "a", "node1")


def plan(text: str = TENANTS, hosts: dict | None = None) -> dict:
    return plan_of(text, hosts=hosts or HOSTS)


def interface(found: dict, name: str) -> dict:
    return found["workloads"][name]["interfaces"][-1]


def reported(text: str, key: str, kind: str, hosts: dict | None = None) -> tuple | None:
    one = condition(stored(text, hosts=hosts or HOSTS).objects[key], kind)
    return one and (one["status"], one["reason"], one["message"])


def test_workloads_join_it_as_any_primary_network():
    found = plan()
    eth0, own = found["workloads"]["red/a"]["interfaces"]
    assert (eth0["name"], eth0["role"]) == ("eth0", "infrastructure-locked")
    assert (own["name"], own["role"], own["nad"]) == ("ovn-udn1", "primary", "red/net")
    # The gateway has the first addresses, here and at all other hosts.
    assert own["addresses"] == ["10.9.0.2/24", "fd00:9::2/64"]
    assert own["routes"] == [{"to": "0.0.0.0/0", "via": "10.9.0.1"}, {"to": "::/0", "via": "fd00:9::1"}]
    assert found["networks"]["red_net"]["gateways"] == ["10.9.0.1", "fd00:9::1"]
    assert not unrenderable(found)


@pytest.mark.parametrize(
    ("subnets", "routes"), [("10.9.0.0/24", [("0.0.0.0/0", "10.9.0.1")]), ('"fd00:9::/64"', [("::/0", "fd00:9::1")])]
)
def test_one_family(subnets, routes):
    found = plan(namespace("red") + mesh("red", subnets) + workload("red", "a", "node1"))
    assert [(one["to"], one["via"]) for one in interface(found, "red/a")["routes"]] == routes
    assert len([rule for rule in render_host_network(found, "node1").rules if rule.vrf]) == 1
    assert not unrenderable(found)


def test_one_primary_network_in_a_namespace_with_the_label():
    assert reported(RED + layer2("red", "second", "10.1.0.0/24"), "UserDefinedNetwork/red/second", "NetworkCreated")[
        :2
    ] == ("False", "SyncError")
    unlabelled = namespace("red", primary=False) + mesh("red")
    assert "lacks the label" in reported(unlabelled, "MeshNetwork/red/net", "NetworkCreated")[2]
    (problem,) = read_manifests([("a.yml", mesh("red", SUBNETS, ", joinSubnets: [100.65.0.0/16]"))])[1]
    assert "joinSubnets" in str(problem)


def test_ovn_does_not_know_it():
    found, without = plan(), plan(namespace("red", primary=False))
    for render in (render_northbound, render_workload_ports, render_management_ports):
        assert not [row.key for row in render(found, "node1") if row.network not in ("", "default")]
    assert render_bridge_flows(found, "node1") == render_bridge_flows(without, "node1")


def test_each_tenant_has_a_vrf_with_one_gateway_on_the_hosts_of_its_workloads():
    found = plan()
    numbers = {name: found["networks"][name]["id"] for name in ("red_net", "blue_net")}
    network = render_host_network(found, "node1")
    assert {one.network: one.name for one in network.vrfs} == {
        name: f"mp{number}-udn-vrf" for name, number in numbers.items()
    }
    for number in numbers.values():
        device, vrf = f"ovn-k8s-mp{number}", f"mp{number}-udn-vrf"
        assert [one.address for one in network.addresses if one.device == device] == ["10.9.0.1/24", "fd00:9::1/64"]
        routes = {one.to: one for one in network.routes if one.vrf == vrf and one.kind == "unicast"}
        assert routes["0.0.0.0/0"].via, routes["::/0"].via == ("192.0.2.1", "2001:db8::1")
        # What other networks have on this host is not behind its default gateway.
        nowhere = {one.to for one in network.routes if one.vrf == vrf and one.kind == "unreachable"}
        assert {"10.244.0.0/16", "10.96.0.0/16", "169.254.0.0/17", "fd00:10:96::/112"} <= nowhere
        assert {one.fwmark for one in network.rules if one.vrf == vrf} == {4096 + number}
    (port,) = [row for row in render_mesh_gateways(found, "node2", "system") if row.table == "Port"]
    assert port.key == f"ovn-k8s-mp{numbers['red_net']}"
    assert not render_host_network(found, "node3").vrfs


def test_firewall_keeps_tenants_apart_and_lets_replies_in_only():
    found = plan()
    red, blue = (found["networks"][name]["id"] for name in ("red_net", "blue_net"))
    chains = {one.name: one.rules for one in render_firewall(found, "node1").chains}
    (zones,), (marks,) = chains["mesh-zone"], chains["mesh-reply"]
    for number in (red, blue):
        assert f'"ovn-k8s-mp{number}" : {57344 + number}' in zones
        assert f"{57344 + number} : {4096 + number:#x}" in marks
    assert [rule.split()[-1] for rule in chains["mesh-forward"]] == ["accept", "drop"]
    assert chains["mesh-input"][-1].endswith("drop")
    assert not [one.name for one in render_firewall(found, "node3").chains if one.name.startswith("mesh")]


def test_port_of_the_gateway_has_the_mtu_and_the_mac_that_all_hosts_have():
    found = plan(RED.replace("role: Primary", "role: Primary, mtu: 1300"))
    ports = [
        {row.table: row.columns for row in render_mesh_gateways(found, node, "netdev")}["Interface"]
        for node in ("node1", "node2")
    ]
    assert ports[0] == ports[1]
    assert (ports[0]["mtu_request"], ports[0]["mac"]) == (1300, "0a:58:0a:09:00:01")
    (bridge,) = [row for row in render_mesh_gateways(found, "node3", "netdev") if row.table == "Bridge"]
    assert bridge.columns["datapath_type"] == "netdev"


def test_daemon_knows_the_gateway_on_all_hosts():
    found = plan(RED)
    number = found["networks"]["red_net"]["id"]
    mac = "0a:58:0a:09:00:01"
    assert configuration_of(found, "node1").gateways == {number: Gateway(mac, f"ovn-k8s-mp{number}")}
    assert configuration_of(found, "node3").gateways == {number: Gateway(mac)}
    assert configuration_of(plan(RED, WITHOUT_VRFS), "node2").gateways == {number: Gateway(mac)}


def test_host_without_vrfs_is_no_gateway_and_is_named():
    found = plan(RED, WITHOUT_VRFS)
    assert interface(found, "red/a")["routes"] and not interface(found, "red/b")["routes"]
    network = render_host_network(found, "node2")
    assert not network.vrfs and not [one for one in network.links if one.network == "red_net"]
    assert not [row for row in render_mesh_gateways(found, "node2", "system") if row.table == "Port"]
    status, reason, message = reported(RED, "MeshNetwork/red/net", "PartialFailure", WITHOUT_VRFS)
    assert (status, reason) == ("True", "VRFsNotSupported")
    assert message.startswith("no gateway on node2: the kernel has no VRFs")
    assert reported(RED, "MeshNetwork/red/net", "PartialFailure") is None
    secondary = RED.replace("role: Primary", "role: Secondary")
    assert reported(secondary, "MeshNetwork/red/net", "PartialFailure", WITHOUT_VRFS) is None


def test_host_without_an_uplink_has_none():
    found = plan(RED, nodes("node1", "node2", "node3"))
    assert not interface(found, "red/a")["routes"]
    assert not render_host_network(found, "node1").vrfs
    assert not [row for row in render_mesh_gateways(found, "node1", "system") if row.table == "Port"]


def test_cluster_dns_is_not_asked():
    made = plan_of(RED, hosts=HOSTS, settings={"cluster_domain": "cluster.local"})
    assert [one.resolver for one in render_endpoints(made, "node1")] == [""]


def test_virtual_machine_waits_for_a_network_of_ovn():
    text = RED + workload("red", "vm", "node1").replace("node: node1", "node: node1, kind: vm")
    assert reported(text, "Workload/red/vm", "Ready")[:2] == ("False", "PrimaryNetworkMissing")


OBJECTS = {
    "Service/red/web": (
        "Ready", "apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: red}\n"
        "spec: {type: NodePort, selector: {app: web}, ports: [{port: 80}]}\n",
    ),
    "NetworkPolicy/red/p": (
        "Accepted", "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\n"
        "metadata: {name: p, namespace: red}\nspec: {podSelector: {}}\n",
    ),
    "EgressFirewall/red/default": (
        "Accepted", "apiVersion: k8s.ovn.org/v1\nkind: EgressFirewall\nmetadata: {name: default, namespace: red}\n"
        "spec: {egress: [{type: Deny, to: {cidrSelector: 0.0.0.0/0}}]}\n",
    ),
    "EgressQoS/red/default": (
        "Accepted", "apiVersion: k8s.ovn.org/v1\nkind: EgressQoS\nmetadata: {name: default, namespace: red}\n"
        "spec: {egress: [{dscp: 30}]}\n",
    ),
    "EgressIP/out": (
        "Assigned", "apiVersion: k8s.ovn.org/v1\nkind: EgressIP\nmetadata: {name: out}\n"
        "spec: {egressIPs: [192.0.2.90], namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: red}}}\n",
    ),
}  # fmt: skip


@pytest.mark.parametrize("key", OBJECTS)
def test_what_needs_ovn_is_reported_and_stops_nothing(key):
    kind, text = OBJECTS[key]
    hosts = {name: {**host, "labels": {"k8s.ovn.org/egress-assignable": ""}} for name, host in HOSTS.items()}
    after = stored(RED + "---\n" + text, hosts=hosts)
    found = condition(after.objects[key], kind)
    assert (found["status"], found["reason"]) == ("False", "NetworkNotSupported"), found
    assert "red_net" in found["message"]
    made = build_plan(after)
    assert not unrenderable(made)
    for part in ("services", "policies", "egress_firewalls"):
        assert "red_net" not in made[part]
    assert made["egress_qos"] == []
    assert "egress_ips" not in made["networks"]["red_net"]
    # Workloads run on.
    assert condition(after.objects["Workload/red/a"], "Ready")["status"] == "True"


def test_policies_of_the_cluster_and_of_secondary_networks():
    admin = (
        "---\napiVersion: policy.networking.k8s.io/v1alpha1\nkind: AdminNetworkPolicy\nmetadata: {name: all}\n"
        "spec: {priority: 1, subject: {namespaces: {}}, ingress: [{action: Deny, from: [{namespaces: {}}]}]}\n"
    )
    after = stored(TENANTS + admin, hosts=HOSTS)
    found = condition(after.objects["AdminNetworkPolicy/all"], "PartialFailure")
    assert (found["reason"], "blue_net, red_net" in found["message"]) == ("NetworkNotSupported", True), found
    assert condition(after.objects["AdminNetworkPolicy/all"], "Accepted")["status"] == "True"
    multi = (
        "---\napiVersion: k8s.cni.cncf.io/v1beta1\nkind: MultiNetworkPolicy\nmetadata: {name: p, namespace: red, "
        "annotations: {k8s.v1.cni.cncf.io/policy-for: net}}\nspec: {podSelector: {}}\n"
    )
    secondary = namespace("red", primary=False) + mesh("red").replace("Primary", "Secondary")
    after = stored(secondary + workload("red", "a", "node1", "net") + multi, hosts=HOSTS)
    assert condition(after.objects["MultiNetworkPolicy/red/p"], "Accepted")["reason"] == "NetworkNotSupported"
    assert "red_net" not in build_plan(after)["policies"]


def flows(hosts: dict, kind: str, name: str) -> dict[int, tuple]:
    external = {"external": ["192.0.2.200", "2001:db8::200"]}
    found = external_flows(plan(TENANTS, hosts), external, None, Selection(ALL))
    return {one.family: one for one in found if (one.kind, one.workload) == (kind, name)}


def test_verify_expects_the_address_of_the_host_outside():
    found = flows(HOSTS, external_expectations.TO_EXTERNAL, "red/a")
    assert [(one.reach, one.seen_as, one.mtu) for one in found.values()] == [
        (True, "192.0.2.11", 1400), (True, "2001:db8::b", 1400),
    ]  # fmt: skip
    assert not flows(HOSTS, external_expectations.TO_OWN_HOST, "red/a")[4].reach
    assert flows(HOSTS, external_expectations.TO_OTHER_HOST, "red/a")[4].reach
    assert flows(HOSTS, external_expectations.FROM_VRF, "red/a")[6].reach
    assert not flows(HOSTS, external_expectations.FROM_HOST, "red/a")[4].reach
    assert not flows(WITHOUT_VRFS, external_expectations.TO_EXTERNAL, "red/b")[4].reach
