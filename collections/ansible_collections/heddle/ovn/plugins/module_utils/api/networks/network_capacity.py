# SPDX-License-Identifier: Apache-2.0
"""How many hosts or workloads fit into the subnets of a network."""

from __future__ import annotations

import ipaddress

from ..addresses import Network

# What ovn-kubernetes assumes when hostSubnet is not given.
DEFAULT_HOST_SUBNETS = {4: 24, 6: 64}


def usable_addresses(subnet: Network, excluded: list[Network]) -> int:
    """Addresses of a subnet that are neither the network's, nor the IPv4 broadcast address, nor excluded."""
    first = int(subnet.network_address) + 1
    last = int(subnet.broadcast_address) - (1 if subnet.version == 4 else 0)
    usable = max(0, last - first + 1)
    family = [network for network in excluded if network.version == subnet.version]
    for network in ipaddress.collapse_addresses(family):
        low = max(first, int(network.network_address))
        high = min(last, int(network.broadcast_address))
        usable -= max(0, high - low + 1)
    return max(0, usable)


def host_subnet_capacity(spec: dict) -> dict[int, int]:
    """How many hosts a normalised Layer3 spec can serve, by IP version; a version without subnets is absent."""
    capacity: dict[int, int] = {}
    for subnet in spec["subnets"]:
        network = ipaddress.ip_network(subnet["cidr"])
        length = subnet["hostSubnet"] or DEFAULT_HOST_SUBNETS[network.version]
        capacity[network.version] = capacity.get(network.version, 0) + 2 ** (length - network.prefixlen)
    return capacity
