# SPDX-License-Identifier: Apache-2.0
"""The plan's entry for each interface of a workload: name, port, MAC, addresses, routes, role."""

from __future__ import annotations

from ..common.addressing import family, prefix_length
from ..common.naming import nad_key, workload_port
from ..controllers.allocation import address_pool, interface_pool, tunnel_id_pool, workload_subnets
from ..controllers.attachment import moves_live, workload_key, workload_mac
from ..controllers.networks import Network
from ..controllers.placement import node_of
from ..controllers.router_addresses import gateway_address
from ..store.snapshot import Snapshot, StoredObject

DEFAULT_INTERFACE = "eth0"
PRIMARY_INTERFACE = "ovn-udn1"


def workload_interfaces(
    workload: StoredObject, default: Network, attached: list[Network], snapshot: Snapshot
) -> list[dict]:
    """Return a workload's interfaces: the default network first, then the primary one, then the others in order."""
    has_primary = any(network.role == "Primary" for network in attached)
    interfaces = []
    if not moves_live(workload):
        role = "infrastructure-locked" if has_primary else "primary"
        interfaces.append(_interface(workload, default, DEFAULT_INTERFACE, role, snapshot))
    secondary = {}
    for network in attached:
        if network.role == "Primary":
            interfaces.append(_interface(workload, network, PRIMARY_INTERFACE, "primary", snapshot))
        else:
            number = int(snapshot.get(interface_pool(workload_key(workload)), network.name))
            secondary[number] = _interface(workload, network, f"net{number}", "secondary", snapshot)
    return interfaces + [secondary[number] for number in sorted(secondary)]


def _interface(workload: StoredObject, network: Network, name: str, role: str, snapshot: Snapshot) -> dict:
    owner = workload_key(workload)
    nad = None if network.is_default else nad_key(workload.namespace, network.nad_name)
    subnets = workload_subnets(snapshot, network, node_of(workload))
    given = [snapshot.get(address_pool(network.name, subnet), owner) for subnet in subnets]
    tunnel_id = snapshot.get(tunnel_id_pool(network.name), owner)
    return {
        "network": network.name,
        "name": name,
        "role": role,
        "port": workload_port(workload.namespace, workload.name, nad),
        "nad": nad,
        "mac": workload_mac(snapshot, workload, network, given),
        "mtu": network.mtu,
        "addresses": [f"{address}/{prefix_length(subnet)}" for address, subnet in zip(given, subnets, strict=True)],
        "routes": [
            {"to": to, "via": gateway}
            for gateway in (gateway_address(network, subnet) for subnet in subnets if _is_routed(network))
            for to in _destinations(network, role, snapshot.settings, gateway)
        ],
        "tunnel_id": None if tunnel_id is None else int(tunnel_id),
    }


def _is_routed(network: Network) -> bool:
    """Return whether there is a router beside the workloads of a network."""
    return network.topology == "Layer3" or network.is_transit_routed


def _destinations(network: Network, role: str, settings: dict, gateway: str) -> list[str]:
    """Return what an interface routes through its gateway (ovn-kubernetes, pod annotation `routes`)."""
    version = family(gateway)
    wanted: list[str] = []
    if network.is_default:
        wanted += [subnet["cidr"] for subnet in network.subnets] + settings["join_subnets"]
    elif network.topology == "Layer3":
        wanted += [subnet["cidr"] for subnet in network.subnets]
    if role == "primary":
        wanted += settings["service_subnets"]
        if not network.is_default:
            wanted += network.join_subnets
        wanted.append("0.0.0.0/0" if version == 4 else "::/0")
    return [subnet for subnet in wanted if family(subnet) == version]
