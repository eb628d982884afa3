# SPDX-License-Identifier: Apache-2.0
"""Builds the plan from a snapshot of the state.

The plan holds decisions (ids, keys, subnets, addresses), not rows: each host derives the rows with
`render`. Its digest covers everything but the revision, so plans with equal content have the same digest.
"""

from __future__ import annotations

from ..common.addressing import family
from ..common.naming import MESH_TOPOLOGY
from ..common.plan_digest import plan_digest
from ..common.plan_format import DNS_NAMES, PLAN_FORMAT, PROBES
from ..controllers.allocation.allocation import (
    gateway_router_owner,
    host_subnets_of,
    tunnel_id_pool,
    workload_subnets,
)
from ..controllers.allocation.router_addresses import gateway_address, management_address
from ..controllers.allocation.transit import chosen_transit_subnets
from ..controllers.allocation.tunnel_keys import key_ranges
from ..controllers.coil.membership import pools_of_namespaces
from ..controllers.egress.egress_ips import EgressSelection
from ..controllers.egress.egress_rules import egress_firewalls, egress_qos
from ..controllers.egress.egress_services import EgressServiceSelection
from ..controllers.network.attachment import Attachments, moves_live
from ..controllers.network.network_nodes import nodes_of_networks
from ..controllers.network.networks import Network, networks, running_workloads
from ..controllers.services.service_endpoints import ServiceEndpoints
from ..controllers.workload.move import moving_to
from ..controllers.workload.placement import node_of
from ..store.encapsulation import AUTO, SETTING, encapsulation_of
from ..store.layer2_version import is_open, version_of, was_on_link
from ..store.settings import DEFAULTS, NOT_IN_PLAN, OVN, cluster_subnets
from ..store.snapshot import Snapshot, StoredObject
from .coil_entries import coil_entries
from .egress_entries import egress_ip_entries, egress_service_entries, networks_of
from .egress_nat_entries import egress_nat_entries
from .policy_entries import policy_entries
from .service_entries import headless_entries, service_entries
from .workload_entries import WorkloadInterfaces, probe_of


def build_plan(snapshot: Snapshot) -> dict:
    """Return the plan document of a snapshot whose allocations are complete."""
    found = networks(snapshot)
    attachments, pools = Attachments(found), pools_of_namespaces(snapshot)
    interfaces = WorkloadInterfaces(snapshot)
    egress_ips = EgressSelection(snapshot, found)
    egress_services = EgressServiceSelection(snapshot, ServiceEndpoints(snapshot, found))
    selected = nodes_of_networks(snapshot, found, egress_ips, egress_services)
    nodes = snapshot.of_kind("Node")
    egress = egress_ip_entries(snapshot, egress_ips)
    leaving = networks_of(egress)
    has_ovn = snapshot.settings.get(OVN, True)
    plan = {
        "format": PLAN_FORMAT,
        "deployment": snapshot.name,
        "settings": {name: value for name, value in snapshot.settings.items() if name not in NOT_IN_PLAN},
        "nodes": {node.name: _node(node, snapshot) for node in nodes},
        "networks": {
            network.name: {
                **_network(network, nodes, snapshot),
                # Without `nodes` a network is on every node, or on Layer3 on every one with subnets.
                **({"nodes": selected[network.name]} if network.name in selected else {}),
                **({"egress_ips": leaving[network.name]} if network.name in leaving else {}),
            }
            for network in (found.values() if has_ovn else ())
        },
        "workloads": {
            f"{workload.namespace}/{workload.name}": {
                "node": node_of(workload),
                "kind": workload.spec["kind"],
                "namespace": workload.namespace,
                "name": workload.name,
                "interfaces": interfaces.of(workload, attachments.of(workload)),
                **_virtual_machine(workload),
                **probe_of(workload),
            }
            for workload in running_workloads(snapshot)
            if workload.namespace not in pools
        },
        "services": service_entries(snapshot, found),
        **headless_entries(snapshot, found),
        "policies": policy_entries(snapshot, found),
        "egress_ips": egress,
        **egress_service_entries(snapshot, egress_services),
        "egress_firewalls": egress_firewalls(snapshot, found),
        "egress_qos": egress_qos(snapshot, found),
        **coil_entries(snapshot),
        **({} if has_ovn else {"ovn": False}),
        **({"underlay_probes": True} if has_ovn and snapshot.settings.get(SETTING) == AUTO and len(nodes) > 1 else {}),
        **({} if (overlay := encapsulation_of(snapshot).kind) == DEFAULTS[SETTING] else {"encapsulation": overlay}),
    }
    plan |= egress_nat_entries(snapshot, plan)
    if daemons := _daemons(plan):
        plan["daemons"] = daemons
    return {**plan, "digest": plan_digest(plan), "revision": snapshot.revision}


def _daemons(plan: dict) -> list[str]:
    """Return which services all hosts run because a workload or a rule on any of them needs one."""
    workloads = [*plan["workloads"].values(), *plan.get("coil", {}).get("workloads", {}).values()]
    firewalls = (firewall for firewalls in plan["egress_firewalls"].values() for firewall in firewalls)
    named = any("dns_name" in rule for firewall in firewalls for rule in firewall["rules"])
    return ([DNS_NAMES] if named else []) + ([PROBES] if any("readiness" in one for one in workloads) else [])


def _virtual_machine(workload: StoredObject) -> dict:
    if not moves_live(workload):
        return {}
    return {"memory": workload.spec["memory"], "moving_to": moving_to(workload)}


def _node(node, snapshot: Snapshot) -> dict:
    # Without OVN other NICs matter for admission alone, and nothing has to be applied when they change.
    others = node.spec.get("other_addresses") if snapshot.settings.get(OVN, True) else None
    return {
        "id": int(snapshot.get("node-id", node.name)),
        "chassis": node.spec.get("chassis"),
        "encap_ips": node.spec.get("encap_ips", []),
        "addresses": node.spec.get("addresses", []),
        "layer2_topology_version": version_of(node),
        "gateway": node.spec.get("gateway"),
        **({"other_addresses": others} if others else {}),
        **({"name_servers": servers} if (servers := node.spec.get("name_servers")) else {}),
        **({"mesh_neighbours": neighbours} if (neighbours := node.spec.get("mesh_neighbours")) else {}),
    }


def _has_ipv4(snapshot: Snapshot) -> bool:
    """Return whether the cluster has IPv4: whether the default network has."""
    return any(family(subnet["cidr"]) == 4 for subnet in cluster_subnets(snapshot.settings))


def _network(network: Network, nodes: list[StoredObject], snapshot: Snapshot) -> dict:
    identifier = 0 if network.is_default else int(snapshot.get("network-id", network.name))
    described = {
        "id": identifier,
        "object": network.object_key,
        "nad": network.nad_name,
        "topology": network.topology,
        "role": network.role,
        "mtu": network.mtu,
        "families": list(network.families),
        "subnets": [subnet["cidr"] for subnet in network.subnets],
        "join_subnets": [subnet for subnet in network.join_subnets if family(subnet) in network.families],
        "namespaces": [] if network.is_default else list(network.namespaces),
        "tunnel_keys": [key_ranges(snapshot).of_network(identifier)],
    }
    if network.join_subnets and 4 not in network.families and _has_ipv4(snapshot):
        # Gateway routers have their MAC of it, see render/common/node_network.py.
        described["mac_subnet"] = next(subnet for subnet in network.join_subnets if family(subnet) == 4)
    if network.topology == "Layer3":
        # A node for which too few subnets were left is not part of the network; its status reports that.
        described["host_subnets"] = host_subnets_of(snapshot, network, [node.name for node in nodes])
        described["transit_subnets"] = [
            subnet for subnet in snapshot.settings["transit_subnets"] if family(subnet) in network.families
        ]
    if network.topology in ("Localnet", MESH_TOPOLOGY):
        described["tunnel_keys"] = []
    if network.has_host_gateway:
        subnets = workload_subnets(snapshot, network, "")
        # The interface of each host has the address of the gateway.
        described["gateways"] = described["management"] = [gateway_address(network, subnet) for subnet in subnets]
    if network.is_encrypted:
        described["encrypted"] = True
    if network.topology == "Localnet":
        described |= {"physical_network": network.physical_network, "vlan": network.vlan}
    if network.is_transit_routed:
        described["tunnel_keys"].append(int(snapshot.get("tunnel-key", network.name)))
        described["transit_subnets"] = chosen_transit_subnets(snapshot, network)
        subnets = workload_subnets(snapshot, network, "")
        described["gateways"] = [gateway_address(network, subnet) for subnet in subnets]
        described["management"] = [management_address(network, subnet) for subnet in subnets]
        if was_on_link(snapshot, network.name):
            described["join_subnets_on_link"] = True
        if is_open(snapshot):
            owners = {node.name: gateway_router_owner(node.name) for node in snapshot.of_kind("Node")}
            held = snapshot.allocations[tunnel_id_pool(network.name)]
            described["gateway_tunnel_ids"] = {name: int(held[owner]) for name, owner in owners.items()}
    return described
