# SPDX-License-Identifier: Apache-2.0
"""The plan's entries of a workload: its readiness probe, and each interface with name, port, MAC, addresses, routes."""

from __future__ import annotations

from ..common.addressing import family, plain, prefix_length
from ..common.naming import LOCKED_ROLE, workload_port
from ..controllers.allocation.allocation import given_addresses, tunnel_id_pool, workload_subnets
from ..controllers.allocation.router_addresses import gateway_address
from ..controllers.allocation.workload_macs import workload_mac
from ..controllers.network.attachment import Attachment
from ..controllers.network.host_gateways import has_gateway
from ..controllers.network.networks import Network
from ..controllers.workload.placement import node_of
from ..store.snapshot import Snapshot, StoredObject

_EVERYWHERE = {4: "0.0.0.0/0", 6: "::/0"}


def probe_of(workload: StoredObject) -> dict:
    """Return a workload's readiness probe as the entry `readiness`; nothing for one without."""
    return {"readiness": workload.spec["readiness"]} if "readiness" in workload.spec else {}


def workload_interfaces(workload: StoredObject, attachments: list[Attachment], snapshot: Snapshot) -> list[dict]:
    """Return a workload's interfaces in the order of its attachments: default network, primary one, selected ones."""
    networks = [one.network for one in attachments]
    has_primary = any(network.role == "Primary" and not network.is_default for network in networks)
    # A gateway that the annotation requests takes the place of the primary network's (`default-route`).
    elsewhere = {family(gateway) for one in attachments for gateway in one.gateways}
    return [
        _interface(workload, one, _role(one.network, has_primary=has_primary), elsewhere, snapshot)
        for one in attachments
    ]


def _role(network: Network, *, has_primary: bool) -> str:
    if network.is_default and has_primary:
        return LOCKED_ROLE
    return network.role.lower()


def _interface(
    workload: StoredObject, attachment: Attachment, role: str, elsewhere: set[int], snapshot: Snapshot
) -> dict:
    network = attachment.network
    subnets = workload_subnets(snapshot, network, node_of(workload))
    given = given_addresses(snapshot, attachment, subnets)
    addresses = [f"{address}/{prefix_length(subnet)}" for address, subnet in zip(given, subnets, strict=True)]
    addresses += attachment.addresses
    is_routed = _is_routed(network) or (
        network.has_host_gateway and has_gateway(snapshot.objects[f"Node/{node_of(workload)}"])
    )
    tunnel_id = snapshot.get(tunnel_id_pool(network.name), attachment.owner)
    return {
        "network": network.name,
        "name": attachment.interface,
        "role": role,
        "port": workload_port(workload.namespace, workload.name, attachment.nad),
        "nad": attachment.nad,
        "mac": workload_mac(snapshot, workload, attachment, [plain(address) for address in addresses]),
        "mtu": network.mtu,
        "addresses": addresses,
        "routes": [
            {"to": to, "via": gateway}
            for gateway in (gateway_address(network, subnet) for subnet in subnets if is_routed)
            for to in _destinations(network, role, snapshot.settings, gateway, elsewhere)
        ]
        + [{"to": _EVERYWHERE[family(gateway)], "via": gateway} for gateway in attachment.gateways],
        "tunnel_id": None if tunnel_id is None else int(tunnel_id),
    }


def _is_routed(network: Network) -> bool:
    """Return whether OVN has a router beside the workloads of a network."""
    return network.topology == "Layer3" or network.is_transit_routed


def _destinations(network: Network, role: str, settings: dict, gateway: str, elsewhere: set[int]) -> list[str]:
    """Return what an interface routes through its gateway (ovn-kubernetes, pod annotation `routes`).

    The default routes of the families `elsewhere` lead out of another interface.
    """
    version = family(gateway)
    wanted: list[str] = []
    if network.is_default:
        wanted += [subnet["cidr"] for subnet in network.subnets] + settings["join_subnets"]
    elif network.topology == "Layer3":
        wanted += [subnet["cidr"] for subnet in network.subnets]
    if role == "primary":
        # Networks of the mesh have no Services.
        wanted += [] if network.is_mesh else settings["service_subnets"]
        if not network.is_default:
            wanted += network.join_subnets
        wanted += [] if version in elsewhere else [_EVERYWHERE[version]]
    return [subnet for subnet in wanted if family(subnet) == version]
