# SPDX-License-Identifier: Apache-2.0
"""Fields that the API server accepts but the controllers reject, or that Heddle does not support yet."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from .addresses import contains
from .networks.network import LAYER2, LAYER3, PRIMARY
from .networks.network_capacity import DEFAULT_HOST_SUBNETS, usable_addresses

_NOT_YET = "accepted by the API, not supported by Heddle yet"
_LEAST_LAYER2_ADDRESSES = 4
# In a host's subnet the gateway, the management port, the network address and the broadcast address are reserved.
_LONGEST_IPV4_HOST_SUBNET = 29


def unsupported(spec: dict) -> Iterator[tuple[str, str, str]]:
    """Path, rule and remedy of each valid field of a normalised spec that admission must reject."""
    for name in ("transport", "noOverlay", "evpn", "uplinks"):
        if spec.get(name):
            yield f"spec.{name}", _NOT_YET, "remove it, networks use Geneve and the external bridge"
    subnets = [(ipaddress.ip_network(subnet["cidr"]), subnet["hostSubnet"]) for subnet in spec["subnets"]]
    excluded = [ipaddress.ip_network(cidr) for cidr in spec["excludeSubnets"]]
    for part in excluded if subnets else ():
        if not any(contains(subnet, part) for subnet, _length in subnets):
            rule = f"excludeSubnets must be in range of at least one subnet specified in subnets: {part} is not"
            yield "spec.excludeSubnets", rule, "choose it from the subnets"
    for subnet, length in subnets:
        if subnet.version == 4 and str(subnet.broadcast_address) in spec["defaultGatewayIPs"]:
            # Linux accepts no route through it.
            rule = f"{subnet.broadcast_address} is the broadcast address of {subnet}, which cannot be a gateway"
            yield "spec.defaultGatewayIPs", rule, "choose another address of the subnet"
        if spec["topology"] == LAYER3:
            yield from _host_subnet(subnet, length, spec["role"])
        elif spec["topology"] == LAYER2 and spec["role"] == PRIMARY:
            usable = usable_addresses(subnet, excluded)
            if usable < _LEAST_LAYER2_ADDRESSES:
                rule = f"subnet {subnet} is too small for its hosts, it has {usable} usable addresses"
                yield "spec.subnets", rule, f"leave at least {_LEAST_LAYER2_ADDRESSES}"


def _host_subnet(subnet, written: int | None, role: str) -> Iterator[tuple[str, str, str]]:
    """Check one host's subnet of a Layer3 network, as the parser of network attachment definitions does."""
    length = written or DEFAULT_HOST_SUBNETS[subnet.version]
    if length <= subnet.prefixlen:
        rule = f"HostSubnet must be smaller than CIDR subnet: the default /{length} is not within {subnet}"
        longer = f"a hostSubnet above {subnet.prefixlen}, or " if subnet.version == 4 else ""
        yield "spec.subnets", rule, f"write {longer}a wider CIDR"
    elif subnet.version == 6 and length != DEFAULT_HOST_SUBNETS[6]:
        yield "spec.subnets", f"hostSubnet must be 64 for an IPv6 CIDR, got {length}", "write 64"
    elif subnet.version == 4 and role == PRIMARY and length > _LONGEST_IPV4_HOST_SUBNET:
        rule = f"hostSubnet {length} is too small for its hosts, it leaves no address for workloads"
        yield "spec.subnets", rule, f"write {_LONGEST_IPV4_HOST_SUBNET} or less"
