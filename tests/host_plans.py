# SPDX-License-Identifier: Apache-2.0
"""The oracle for the parts of a plan that hosts get: each renders its part as it renders the whole."""

from __future__ import annotations

from dataclasses import fields

from ansible_collections.heddle.ovn.plugins.module_utils.common.plan_digest import plan_digest
from ansible_collections.heddle.ovn.plugins.module_utils.mesh_daemon.configuration import configuration_of
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


def check_host_plans(plan: dict) -> None:
    """Check the plan of each node."""
    digests = HostPlans(plan).digests
    assert digests.keys() == plan["nodes"].keys()
    for node in plan["nodes"]:
        own = host_plan(plan, node)
        assert own["digest"] == digests[node] == plan_digest(own)
        assert host_plan(own, node) == own
        check_part(own, plan, node)


def check_part(own: dict, plan: dict, node: str) -> None:
    """Check that a node renders its own part as the whole plan."""
    for what, render in RENDERED.items():
        assert plain(render(own, node)) == plain(render(plan, node)), f"{node}: {what}"


def plain(value) -> str:
    """Return a value as text, in an order of its own: that of the plan's entries is of no consequence."""
    return "\n".join(sorted(map(repr, value))) if isinstance(value, list) else repr(value)
