# SPDX-License-Identifier: Apache-2.0
"""Manifests to what a host with external connectivity has besides Northbound rows.

`host/NAME.yml` is the input; `NAME.flows` is node1's provider bridge, `NAME.network` `NAME.firewall` its kernel.
A name ends with `-shared` or `-local`, the hosts' gateway mode. With `-nics` hosts have a further NIC. HEDDLE_RECORD=1
writes the expected files anew.
"""

import os
from dataclasses import fields
from pathlib import Path

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.render.gateway.bridge import (
    render_flood_ports,
    render_static_macs,
)
from ansible_collections.heddle.ovn.plugins.module_utils.render.gateway.bridge_flows import render_bridge_flows
from ansible_collections.heddle.ovn.plugins.module_utils.render.host.firewall import render_firewall
from ansible_collections.heddle.ovn.plugins.module_utils.render.host.links_and_routes import (
    NEIGHBOUR_LIMITS,
    render_host_network,
    render_management_ports,
)
from ansible_collections.heddle.ovn.plugins.module_utils.types.host_network import HostNetwork
from ansible_collections.heddle.ovn.plugins.module_utils.types.nftables_ruleset import Firewall
from ansible_collections.heddle.ovn.plugins.module_utils.types.openflow_flow import DEFAULT_COOKIE, Flow
from tests.pipeline import EVERYWHERE, THREE_NODES, labelled, namespace, plan_of, with_gateways, with_nics

CASES = sorted((Path(__file__).parent / "host").glob("*.yml"))


def plan_for(case: Path) -> dict:
    hosts = labelled(with_gateways(case.stem.rpartition("-")[2]))
    return plan_of(case.read_text(), hosts=with_nics(hosts) if "-nics" in case.stem else hosts, settings=EVERYWHERE)


def shown(flow: Flow) -> str:
    cookie = "" if flow.cookie == DEFAULT_COOKIE else f" cookie={flow.cookie:#x}"
    return f"{flow.table} {flow.priority:3} [{flow.network}]{cookie} {flow.match or 'all'}\n        {flow.actions}\n"


def check(expected: Path, found: str) -> None:
    if os.environ.get("HEDDLE_RECORD"):
        expected.write_text(found)
    assert found == expected.read_text()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_flows(case):
    plan = plan_for(case)
    flows = sorted(render_bridge_flows(plan, "node1"), key=lambda flow: (flow.table, -flow.priority, flow.match))
    others = [*render_flood_ports(plan, "node1"), *render_static_macs(plan, "node1")]
    check(case.with_suffix(".flows"), "".join([*map(shown, flows), *(f"{entry}\n" for entry in others)]))


def words(entry) -> str:
    """The fields of a plan entry that differ from their defaults."""
    said = [(field.name, getattr(entry, field.name), field.default) for field in fields(entry)]
    return f"{type(entry).__name__} " + " ".join(f"{name}={value}" for name, value, default in said if value != default)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_network(case):
    plan = plan_for(case)
    network = render_host_network(plan, "node1")
    found = [
        words(entry)
        for part in fields(HostNetwork)
        if part.name != "link_tables"
        for entry in getattr(network, part.name)
    ]
    found += [f"table of {name}" for name in network.link_tables]
    found += [f"{row.table} {row.key} [{row.network}] {row.columns}" for row in render_management_ports(plan, "node1")]
    check(case.with_suffix(".network"), "".join(f"{line}\n" for line in found))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_firewall(case):
    table = render_firewall(plan_for(case), "node1")
    lines = []
    for chain in table.chains:
        lines.append(f"chain {chain.name}" + (f" {chain.kind} {chain.hook} {chain.priority}" if chain.hook else ""))
        lines += [f"    {rule}" for rule in chain.rules]
    lines += [f"set {entry.name} {entry.type} {' '.join(entry.elements)}" for entry in table.sets]
    for entry in table.maps:
        lines += [f"map {entry.name} {entry.type} : {entry.value}", *(f"    {element}" for element in entry.elements)]
    check(case.with_suffix(".firewall"), "".join(f"{line}\n" for line in lines))


def test_without_vrf_only_the_default_network_has_an_interface_on_the_host():
    plan = plan_of(CASES[0].read_text(), hosts=with_gateways("shared", vrf=False))
    found = render_host_network(plan, "node1")
    assert [link.name for link in found.links] == ["ovn-k8s-mp0"]
    assert not found.vrfs
    assert not found.rules
    assert not [route for route in found.routes if route.vrf]
    ports = {row.key for row in render_management_ports(plan, "node1") if row.table == "Port"}
    assert ports == {"ovn-k8s-mp0"}


def test_prober_is_allowed_by_its_cgroup():
    plan = plan_of(CASES[0].read_text(), hosts=with_gateways("shared", prober="system.slice/prober.service"))
    without = plan_of(CASES[0].read_text(), hosts=with_gateways("shared"))
    assert render_firewall(plan, "node1", with_prober=False) == render_firewall(without, "node1")
    rules = render_firewall(plan, "node1").chains[0].rules
    accepted = [rule for rule in rules if rule.startswith('socket cgroupv2 level 2 "system.slice/prober.service"')]
    assert len(accepted) == 2
    assert rules.index(accepted[0]) < rules.index("ip daddr @udn-pod-default-ips-v4 drop")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_flows_are_unique(case):
    keys = [(flow.table, flow.priority, flow.match) for flow in render_bridge_flows(plan_for(case), "node2")]
    assert len(set(keys)) == len(keys)


def test_nothing_is_rendered_without_external_connectivity():
    plan = plan_of(CASES[0].read_text(), hosts=THREE_NODES)
    assert not render_bridge_flows(plan, "node1")
    assert not render_flood_ports(plan, "node1")
    assert not render_static_macs(plan, "node1")
    assert render_host_network(plan, "node1") == HostNetwork(sysctls=NEIGHBOUR_LIMITS)
    assert [row.key for row in render_management_ports(plan, "node1")] == ["br-int"]
    assert render_firewall(plan, "node1") == Firewall()


@pytest.mark.parametrize(
    ("next_hop", "uplinks", "expected"),
    [
        ("2001:db8::1", [], []),
        ("2001:db8::1", ["eth0", "eth9.7"], ["eth0", "eth9.7"]),
        ("fe80::1", ["eth0"], ["breth1", "eth0"]),
    ],
)
def test_interfaces_with_advertised_routes_keep_accepting_advertisements(next_hop, uplinks, expected):
    hosts = with_gateways("shared", next_hops=[next_hop], advertised_interfaces=uplinks)
    found = [sysctl.name for sysctl in render_host_network(plan_of(CASES[0].read_text(), hosts=hosts), "node1").sysctls]
    accept = [f"net/ipv6/conf/{name}/accept_ra" for name in expected]
    assert [name for name in found if name.endswith("/accept_ra")] == accept
    assert found[-1] == "net/ipv6/conf/all/forwarding"


@pytest.mark.parametrize(
    ("name", "vrf"), [("blue", "blue"), ("eth1", ""), ("br-underlay", ""), ("eth5", ""), ("eth6", "eth6"), ("lo", "")]
)
def test_vrf_name_does_not_collide_with_a_host_interface(name, vrf):
    network = (
        "---\napiVersion: k8s.ovn.org/v1\nkind: ClusterUserDefinedNetwork\n"
        f"metadata: {{name: {name}}}\nspec: {{namespaceSelector: {{}}, network: {{topology: Layer2, "
        "layer2: {role: Primary, subnets: [10.50.0.0/24]}}}\n"
    )
    hosts = with_gateways("shared", userspace_interfaces=["eth5"])
    plan = plan_of(namespace("n") + network, hosts=hosts, settings=EVERYWHERE)
    (found,) = render_host_network(plan, "node1").vrfs
    assert found.name == (vrf or f"mp{plan['networks'][f'cluster_udn_{name}']['id']}-udn-vrf")
