# SPDX-License-Identifier: Apache-2.0
"""Addresses of a subnet that are reserved for the network: the gateway, and the node's own interface.

The first and the second address of a subnet. A Layer2 primary network may choose others (ovn-kubernetes, preconfigured
addresses: `defaultGatewayIPs`, `infrastructureSubnets`).
"""

from __future__ import annotations

import ipaddress

from ...common.addressing import GATEWAY_OFFSET, MANAGEMENT_OFFSET, family, network_of, nth_address
from ..network.networks import Network


def gateway_address(network: Network, subnet: str) -> str:
    """Return the address of a network's router in a subnet, without prefix length.

    It is the one of `defaultGatewayIPs`, or else the first of the subnet.
    """
    asked = (gateway for gateway in network.gateways if family(gateway) == family(subnet))
    return next(asked, None) or nth_address(subnet, GATEWAY_OFFSET)


def management_address(network: Network, subnet: str) -> str:
    """Return the address of the management port in a subnet, without prefix length.

    It is the first one of `infrastructureSubnets` that is not the gateway's, or else the second one of the subnet.
    """
    gateway = gateway_address(network, subnet)
    for part in network.infrastructure:
        if family(part) == family(subnet):
            for address in network_of(part):
                if str(address) != gateway and not _names_all(address, subnet):
                    return str(address)
    second = nth_address(subnet, MANAGEMENT_OFFSET)
    return second if second != gateway else nth_address(subnet, GATEWAY_OFFSET)


def _names_all(address: ipaddress.IPv4Address | ipaddress.IPv6Address, subnet: str) -> bool:
    """Return whether an address is the subnet's network or broadcast address."""
    whole = network_of(subnet)
    return address == whole.network_address or (whole.version == 4 and address == whole.broadcast_address)


def reserved_addresses(network: Network, subnet: str) -> set[str]:
    """Return the addresses that workloads cannot have; a switch without a router reserves none."""
    if network.topology == "Layer3":
        offsets = (GATEWAY_OFFSET, MANAGEMENT_OFFSET)
        return {nth_address(subnet, offset) for offset in offsets if offset < network_of(subnet).num_addresses}
    if network.has_host_gateway and network_of(subnet).num_addresses > GATEWAY_OFFSET:
        return {gateway_address(network, subnet)}
    if not network.is_transit_routed or network_of(subnet).num_addresses <= MANAGEMENT_OFFSET:
        return set()
    return {gateway_address(network, subnet), management_address(network, subnet)}
