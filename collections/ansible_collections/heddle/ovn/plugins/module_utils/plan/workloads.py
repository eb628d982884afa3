# SPDX-License-Identifier: Apache-2.0
"""What each interface of a workload gets: name, port, MAC, addresses, routes, role."""

from __future__ import annotations

from ..addressing import GATEWAY_OFFSET, family, mac_of_address, nth_address, prefix_length
from ..naming import nad_key, workload_port
from ..state.allocation import address_pool, tunnel_id_pool, workload_subnets
from ..state.networks import Network
from ..state.placement import node_of
from ..state.snapshot import Snapshot, StoredObject

DEFAULT_INTERFACE = "eth0"
PRIMARY_INTERFACE = "ovn-udn1"


def workload_interfaces(
    workload: StoredObject, default: Network, attached: list[Network], snapshot: Snapshot
) -> list[dict]:
    """Return a workload's interfaces: the default network first, then those that serve its namespace."""
    has_primary = any(network.role == "Primary" for network in attached)
    interfaces = [
        _interface(workload, default, DEFAULT_INTERFACE,
                   "infrastructure-locked" if has_primary else "primary", snapshot)
    ]  # fmt: skip
    secondary = 0
    for network in attached:
        if network.role == "Primary":
            interfaces.append(_interface(workload, network, PRIMARY_INTERFACE, "primary", snapshot))
        else:
            secondary += 1
            interfaces.append(_interface(workload, network, f"net{secondary}", "secondary", snapshot))
    return interfaces


def _interface(workload: StoredObject, network: Network, name: str, role: str, snapshot: Snapshot) -> dict:
    owner = f"{workload.namespace}/{workload.name}"
    nad = None if network.is_default else nad_key(workload.namespace, network.nad_name)
    subnets = workload_subnets(snapshot, network, node_of(workload))
    addresses = []
    for subnet in subnets:
        address = snapshot.get(address_pool(network.name, subnet), owner)
        addresses.append(f"{address}/{prefix_length(subnet)}")
    gateways = [nth_address(subnet, GATEWAY_OFFSET) for subnet in subnets]
    tunnel_id = snapshot.get(tunnel_id_pool(network.name), owner)
    return {
        "network": network.name,
        "name": name,
        "role": role,
        "port": workload_port(workload.namespace, workload.name, nad),
        "nad": nad,
        "mac": mac_of_address(addresses[0]),
        "mtu": network.mtu,
        "addresses": addresses,
        "routes": [
            {"to": to, "via": gateway}
            for gateway in gateways
            for to in _destinations(network, role, snapshot.settings, gateway)
        ],
        "tunnel_id": None if tunnel_id is None else int(tunnel_id),
    }


def _destinations(network: Network, role: str, settings: dict, gateway: str) -> list[str]:
    """Return what an interface routes through its gateway (ovn-kubernetes, pod annotation `routes`)."""
    number = family(gateway)
    wanted: list[str] = []
    if network.is_default:
        wanted += [subnet["cidr"] for subnet in network.subnets] + settings["join_subnets"]
    elif network.topology == "Layer3":
        wanted += [subnet["cidr"] for subnet in network.subnets]
    if role == "primary":
        wanted += settings["service_subnets"]
        if not network.is_default:
            wanted += network.join_subnets
        wanted.append("0.0.0.0/0" if number == 4 else "::/0")
    return [subnet for subnet in wanted if family(subnet) == number]
