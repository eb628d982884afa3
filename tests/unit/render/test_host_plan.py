# SPDX-License-Identifier: Apache-2.0
"""A host renders its part of the plan as the whole, and nothing in it changes when something does elsewhere."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.plan_digest import plan_digest
from ansible_collections.heddle.ovn.plugins.module_utils.mesh_daemon.configuration import configuration_of
from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from ansible_collections.heddle.ovn.plugins.module_utils.render.announcement import render_announcements
from ansible_collections.heddle.ovn.plugins.module_utils.render.coil.bird_configuration import render_bird
from ansible_collections.heddle.ovn.plugins.module_utils.render.coil.egress_nat import render_egress
from ansible_collections.heddle.ovn.plugins.module_utils.render.coil.workloads import (
    render_routed_endpoints,
    render_routed_workloads,
)
from ansible_collections.heddle.ovn.plugins.module_utils.render.common.entrances import held_addresses
from ansible_collections.heddle.ovn.plugins.module_utils.render.common.host_plan import (
    HostPlans,
    host_plan,
    merged,
)
from ansible_collections.heddle.ovn.plugins.module_utils.render.common.hosting_nodes import hosting_nodes
from ansible_collections.heddle.ovn.plugins.module_utils.render.egress.announcements import (
    render_egress_announcements,
)
from ansible_collections.heddle.ovn.plugins.module_utils.render.gateway.bridge import (
    render_flood_ports,
    render_static_macs,
)
from ansible_collections.heddle.ovn.plugins.module_utils.render.gateway.bridge_flows import render_bridge_flows
from ansible_collections.heddle.ovn.plugins.module_utils.render.gateway.egress_flows import render_egress_flows
from ansible_collections.heddle.ovn.plugins.module_utils.render.host.egress_nics import egress_nics
from ansible_collections.heddle.ovn.plugins.module_utils.render.host.firewall import render_firewall
from ansible_collections.heddle.ovn.plugins.module_utils.render.host.links_and_routes import (
    render_host_network,
    render_management_ports,
)
from ansible_collections.heddle.ovn.plugins.module_utils.render.host.mesh import (
    render_mesh_bridge,
    render_mesh_gateways,
)
from ansible_collections.heddle.ovn.plugins.module_utils.render.host.netns import render_endpoints
from ansible_collections.heddle.ovn.plugins.module_utils.render.host.qemu import (
    render_additional_chassis,
    render_virtual_machines,
)
from ansible_collections.heddle.ovn.plugins.module_utils.render.host.vswitch import render_workload_ports
from ansible_collections.heddle.ovn.plugins.module_utils.render.northbound import render_northbound
from ansible_collections.heddle.ovn.plugins.module_utils.render.services.health_checks import render_health_checks
from ansible_collections.heddle.ovn.plugins.module_utils.render.services.readiness import render_probes
from ansible_collections.heddle.ovn.plugins.module_utils.render.southbound import render_southbound
from ansible_collections.heddle.ovn.plugins.module_utils.types.host_network import HostNetwork
from tests.pipeline import (
    EVERYWHERE,
    decide,
    labelled,
    layer2,
    namespace,
    stored,
    upgrade_stage,
    with_gateways,
    with_nics,
    workload,
)

HEDDLE = Path(__file__).parents[3]


def announcements(plan: dict, node: str) -> list:
    """Return what a node announces of addresses and to its workloads."""
    own = [name for name, one in plan["workloads"].items() if node in hosting_nodes(one) and one["kind"] == "vm"]
    return [
        render_egress_announcements(plan, node, held_addresses(plan, node)),
        [render_announcements(plan, node, name) for name in sorted(own)],
    ]


def additional_chassis(plan: dict, node: str) -> dict:
    """Return the additional chassis of virtual machines on networks of a node; it has no ports of others."""
    ports = {row.key for row in render_northbound(plan, node) if row.table == "Logical_Switch_Port"}
    return {port: chassis for port, chassis in render_additional_chassis(plan, node).items() if port in ports}


RENDERED = {
    "Northbound": render_northbound,
    "Southbound": render_southbound,
    "ports of workloads": render_workload_ports,
    "bridge of the mesh": lambda plan, node: render_mesh_bridge(plan, node, "system"),
    "gateways of the mesh": lambda plan, node: render_mesh_gateways(plan, node, "system"),
    "daemon of the mesh": configuration_of,
    "management ports": render_management_ports,
    "bridge flows": render_bridge_flows,
    "egress flows": render_egress_flows,
    "flood ports": render_flood_ports,
    "static MACs": render_static_macs,
    "namespaces": render_endpoints,
    "virtual machines": render_virtual_machines,
    "additional chassis": additional_chassis,
    "firewall": render_firewall,
    "kernel": lambda plan, node: [getattr(render_host_network(plan, node), one.name) for one in fields(HostNetwork)],
    "other NICs": egress_nics,
    "held addresses": held_addresses,
    "announcements": announcements,
    "probes": render_probes,
    "health checks": render_health_checks,
    "BIRD": lambda plan, node: render_bird(plan, node) if "coil" in plan else None,
    "Egress": render_egress,
    "routed namespaces": lambda plan, node: render_routed_endpoints(plan, node, 1400) if "coil" in plan else None,
    "routed workloads": lambda plan, node: render_routed_workloads(plan, node) if "coil" in plan else None,
}


def check(plan: dict) -> None:
    """Check the plan of each node."""
    digests = HostPlans(plan).digests
    assert digests.keys() == plan["nodes"].keys()
    for node in plan["nodes"]:
        own = host_plan(plan, node)
        assert own["digest"] == digests[node] == plan_digest(own)
        assert host_plan(own, node) == own
        for what, render in RENDERED.items():
            assert plain(render(own, node)) == plain(render(plan, node)), f"{node}: {what}"


def plain(value) -> str:
    """Return a value as text, in an order of its own: that of the plan's entries is of no consequence."""
    return "\n".join(sorted(map(repr, value))) if isinstance(value, list) else repr(value)


def plans_of(text: str) -> list[dict]:
    """Return the plans of manifests: with and without a provider network, and with networks everywhere."""
    hosts = with_nics(labelled(with_gateways("shared")))
    local = labelled(with_gateways("local"))
    found = []
    for some, settings in ((hosts, {}), (local, {}), (hosts, EVERYWHERE), (None, {})):
        after, problems = decide(text, hosts=some, settings=settings)
        if not problems:
            found.append(build_plan(after))
    return found


CASES = {
    path.stem: path.read_text()
    for folder in ("tests/golden/host", "tests/golden/northbound")
    for path in sorted((HEDDLE / folder).glob("*.yml"))
}
LAB = "---\n".join(path.read_text() for path in sorted((HEDDLE / "inventories/lab/manifests").glob("*.yml")))


@pytest.mark.parametrize("text", [*CASES.values(), LAB], ids=[*CASES, "lab"])
def test_part_is_rendered_as_the_whole_plan(text):
    found = plans_of(text)
    assert found
    for plan in found:
        check(plan)


@pytest.mark.parametrize("upgraded", [(), ("node2",), ("node1", "node2", "node3")])
def test_part_in_the_upgrade_of_the_layer2_topology(upgraded):
    check(upgrade_stage(LAB, *upgraded, hosts=labelled(with_gateways("shared"))))


def test_part_with_address_pools():
    hosts = with_gateways("shared")
    pool = (
        "---\napiVersion: coil.cybozu.com/v2\nkind: AddressPool\nmetadata: {name: p}\n"
        "spec: {subnets: [{ipv4: 10.2.0.0/24, ipv6: 'fd02::/120'}]}\n"
        + namespace("routed", primary=False).rstrip()
        + "\n  annotations: {coil.cybozu.com/pool: p}\n"
    )
    egress = (
        "---\napiVersion: coil.cybozu.com/v2\nkind: Egress\nmetadata: {name: nat, namespace: routed}\n"
        "spec: {destinations: [198.18.0.0/15], template: {spec: {nodeSelector: {kubernetes.io/hostname: node3}}}}\n"
    )
    text = pool + egress + TENANTS + "".join(workload("routed", f"w-{node}", node) for node in hosts)
    settings = {"coil": {"routers": [{"address": "192.0.2.1", "nodes": ["node1", "node2"]}]}}
    plan = build_plan(stored(text, hosts=hosts, settings=settings))
    assert plan["coil"]["workloads"] and plan["egress"]["workloads"]
    check(plan)


TENANTS = "".join(
    namespace(name) + layer2(name, "net", "10.0.0.0/24") + workload(name, "a", node)
    for name, node in (("red", "node1"), ("blue", "node2"))
)
SERVICE = (
    "---\napiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: blue}\n"
    "spec: {selector: {}, ports: [{port: 80}]}\n"
)
POLICY = (
    "---\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: p, namespace: blue}\n"
    "spec: {podSelector: {}, ingress: []}\n"
)
EGRESS_IP = (
    "---\napiVersion: k8s.ovn.org/v1\nkind: EgressIP\nmetadata: {name: e}\nspec: {egressIPs: [192.0.2.200], "
    "namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: blue}}}\n"
)


@pytest.mark.parametrize(
    ("more", "changed"),
    [
        (workload("blue", "b", "node2"), {"node2"}),
        # The network of the workload is on its node then, with ports of the others; and on theirs with a port of it.
        (workload("blue", "b", "node3"), {"node2", "node3"}),
        (namespace("green") + layer2("green", "net", "10.0.0.0/24"), set()),
        (namespace("green") + layer2("green", "net", "10.0.0.0/24") + workload("green", "a", "node1"), {"node1"}),
        (SERVICE, {"node2"}),
        (POLICY, {"node2"}),
        (namespace("plain", primary=False) + workload("plain", "a", "node1"), {"node1", "node2", "node3"}),
    ],
    ids=[
        "workload",
        "workload on another node",
        "network without workloads",
        "network",
        "Service",
        "policy",
        "default",
    ],
)
def test_only_hosts_that_render_a_change_have_another_plan(more, changed):
    before = stored(TENANTS)
    digests = HostPlans(build_plan(before)).digests
    plan = build_plan(stored(TENANTS + more, before))
    after = HostPlans(plan).digests
    assert {node for node in digests if digests[node] != after[node]} == changed


def test_egress_ip_is_in_the_plans_of_its_workloads_and_its_host():
    hosts = labelled(with_gateways("shared"))
    before = stored(TENANTS, hosts=hosts)
    plan = build_plan(stored(TENANTS + EGRESS_IP, before, hosts=hosts))
    digests, after = HostPlans(build_plan(before)).digests, HostPlans(plan).digests
    [held] = plan["egress_ips"]["e"]["addresses"]
    assert {node for node in digests if digests[node] != after[node]} == {"node2", held["node"]}


def test_the_plans_of_all_hosts_make_the_plan():
    plan = build_plan(stored(LAB, settings=EVERYWHERE, hosts=with_gateways("shared")))
    parts = [host_plan(plan, node) for node in plan["nodes"]]
    assert merged(parts) == plan
    unused = build_plan(stored(TENANTS + namespace("green") + layer2("green", "net", "10.0.0.0/24")))
    whole = merged(host_plan(unused, node) for node in unused["nodes"])
    assert unused["networks"].keys() - whole["networks"].keys() == {"green_net"}
    assert whole["workloads"] == unused["workloads"]


def test_of_different_parts_those_of_the_later_plan_are_merged():
    before = stored(TENANTS)
    old = build_plan(before)
    later = {**build_plan(stored(TENANTS + workload("blue", "b", "node3"), before)), "revision": 9}
    found = merged([host_plan(later, "node3"), host_plan(old, "node2"), host_plan(old, "node1")])
    assert (found["revision"], found["networks"]) == (9, later["networks"])
    assert found["workloads"].keys() == later["workloads"].keys()
