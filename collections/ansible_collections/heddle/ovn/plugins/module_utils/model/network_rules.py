# SPDX-License-Identifier: Apache-2.0
"""Rules between the fields of one network (OKEP-5193, "Validations", and the validation rules of the current API)."""

from __future__ import annotations

from itertools import combinations

from .addresses import contains
from .capacity import DEFAULT_HOST_SUBNETS, usable_addresses
from .network import LAYER2, LAYER3, LOCALNET, PRIMARY, SECONDARY, NetworkSpec, Subnet

_LEAST_IPV6_MTU = 1280
_LEAST_LAYER2_ADDRESSES = 4
_MOST_SECONDARY_SUBNETS = 2
# Of a host's subnet the gateway, the management port, the network address and the broadcast address are taken.
_LONGEST_IPV4_HOST_SUBNET = 29
_PRIMARY_ONLY = ("joinSubnets", "defaultGatewayIPs", "reservedSubnets", "infrastructureSubnets")


def check_network(network: NetworkSpec) -> None:
    """Note every rule that the network breaks; nothing can be said before its topology is known."""
    if network.topology is None:
        return
    _check_primary_only(network)
    _check_mtu(network)
    _check_families(network.join_subnets)
    _check_join_overlap(network)
    if network.topology == LAYER3:
        _check_layer3(network)
    else:
        _check_families(network.subnets)
        _check_ipam(network)
        _check_exclude_subnets(network)
    if network.topology == LAYER2:
        _check_parts(network)
        _check_gateways(network)
        _check_layer2_size(network)
    if network.topology == LOCALNET:
        _check_localnet(network)


def _check_primary_only(network: NetworkSpec) -> None:
    for name in _PRIMARY_ONLY:
        if network.role == SECONDARY and network.has(name):
            network.fields.get(name).refuse(f"{name} is only supported for Primary network", "remove it")


def _check_mtu(network: NetworkSpec) -> None:
    has_ipv6 = any(subnet.value.version == 6 for subnet in network.subnets)
    if has_ipv6 and network.mtu is not None and network.mtu < _LEAST_IPV6_MTU:
        network.fields.get("mtu").refuse(
            f"must be greater than or equal to {_LEAST_IPV6_MTU} when an IPv6 subnet is used, got {network.mtu}",
            f"write {_LEAST_IPV6_MTU} or more",
        )


def _check_families(entries: tuple) -> None:
    """Two entries of a dual-stack list differ in family."""
    if len(entries) == 2 and entries[0].value.version == entries[1].value.version:
        entries[1].node.refuse(
            "when 2 entries are set, they must be from different IP families",
            f"keep one IPv{entries[0].value.version} entry",
        )


def _check_join_overlap(network: NetworkSpec) -> None:
    for join in network.join_subnets:
        for subnet in network.subnets:
            if join.value.version == subnet.value.version and join.value.overlaps(subnet.value):
                join.node.refuse(
                    f"join subnet {join.value} overlaps with subnet {subnet.value} of the same network",
                    "choose another join subnet",
                )


def _require_subnets(network: NetworkSpec, rule: str) -> None:
    node = network.fields.get("subnets")
    if node is None:
        network.fields.require("subnets", "list one CIDR per IP family", rule)
    elif not network.has("subnets"):
        node.refuse(rule, "list one CIDR per IP family")


def _check_layer3(network: NetworkSpec) -> None:
    _require_subnets(network, "Subnets is required for Layer3 topology")
    if network.role == SECONDARY:
        if len(network.subnets) > _MOST_SECONDARY_SUBNETS:
            network.fields.get("subnets").refuse("Secondary networks have at most 2 subnets", "one per IP family")
        _check_families(network.subnets)
    else:
        _check_subnet_overlap(network.subnets)
    for subnet in network.subnets:
        _check_host_subnet(subnet, network.role)
    _check_same_host_subnet(network.subnets)
    _check_layer3_flat(network)


def _check_layer3_flat(network: NetworkSpec) -> None:
    """Fields that the flat form has for all topologies, but which mean nothing for Layer3."""
    refused = [name for name in ("excludeSubnets", "ipamLifecycle") if network.has(name)]
    ipam = network.fields.get("ipam")
    if ipam and isinstance(ipam.value, dict) and (network.ipam.mode == "Disabled" or ipam.value.get("lifecycle")):
        refused.append("ipam")
    for name in refused:
        network.fields.get(name).refuse(f"{name} is supported for Layer2 and Localnet topologies only", "remove it")


def _check_subnet_overlap(subnets: tuple[Subnet, ...]) -> None:
    """Sorted, a network that contains others stands right before them."""
    widest = None
    for subnet in sorted(subnets, key=lambda one: (one.value.version, one.value.network_address, one.value.prefixlen)):
        if widest and widest.value == subnet.value:
            subnet.node.refuse(f"the same CIDR {subnet.value} is listed twice", "keep one of them")
        elif widest and contains(widest.value, subnet.value):
            subnet.node.refuse(
                f"subnets must not overlap or contain each other: {widest.value} contains {subnet.value}",
                "keep one of them",
            )
        else:
            widest = subnet


def _check_host_subnet(subnet: Subnet, role: str | None) -> None:
    """One host's share: longer than the CIDR; exactly /64 for IPv6, as ovn-kubernetes parses it."""
    version = subnet.value.version
    length = subnet.host_subnet or DEFAULT_HOST_SUBNETS[version]
    written = f"/{length}" if subnet.host_subnet else f"the default /{length}"
    if version == 4 and length >= 32:
        subnet.host_subnet_node.refuse(f"hostSubnet must < 32 for an IPv4 CIDR, got {length}", "write 24, for example")
    elif length <= subnet.value.prefixlen:
        subnet.host_subnet_node.refuse(
            f"hostSubnet must be smaller than CIDR subnet: {written} is not within {subnet.value}",
            f"write a value above {subnet.value.prefixlen}, or a wider CIDR",
        )
    elif version == 6 and length != 64:
        subnet.host_subnet_node.refuse(f"hostSubnet must be 64 for an IPv6 CIDR, got {length}", "write 64")
    elif version == 4 and role == PRIMARY and length > _LONGEST_IPV4_HOST_SUBNET:
        subnet.host_subnet_node.refuse(
            f"hostSubnet {length} is too small for its hosts, it leaves no address for workloads",
            f"write {_LONGEST_IPV4_HOST_SUBNET} or less",
        )


def _check_same_host_subnet(subnets: tuple[Subnet, ...]) -> None:
    for version in (4, 6):
        family = [subnet for subnet in subnets if subnet.value.version == version]
        different = next((subnet for subnet in family if subnet.host_subnet != family[0].host_subnet), None)
        if different:
            different.host_subnet_node.refuse(
                f"all IPv{version} subnets must have the same hostSubnet value, or none",
                f"write the one of {family[0].value} everywhere",
            )


def _check_ipam(network: NetworkSpec) -> None:
    fields = network.fields
    if network.ipam.mode == "Disabled":
        if network.role == PRIMARY:
            fields.get("ipam").refuse("Disabled ipam.mode is only supported for Secondary network", "remove mode")
        elif network.has("subnets"):
            fields.get("subnets").refuse(
                "Subnets must be unset when ipam.mode is Disabled", "remove it, or set mode to Enabled"
            )
        if network.ipam.lifecycle:
            name = "ipamLifecycle" if network.has("ipamLifecycle") else "ipam"
            fields.get(name).refuse(
                "lifecycle Persistent is only supported when ipam.mode is Enabled", "remove one of them"
            )
    else:
        _require_subnets(
            network, f"Subnets is required with ipam.mode Enabled or unset for {network.topology} topology"
        )


def _check_exclude_subnets(network: NetworkSpec) -> None:
    if network.exclude_subnets and not network.has("subnets"):
        network.fields.get("excludeSubnets").refuse("excludeSubnets must be unset when subnets is unset", "remove it")
    _check_inside_subnets(network, "excludeSubnets", network.exclude_subnets)


def _check_inside_subnets(network: NetworkSpec, name: str, parts: tuple) -> None:
    for part in parts if network.subnets else ():
        if not any(contains(subnet.value, part.value) for subnet in network.subnets):
            part.node.refuse(
                f"{name} must be subnetworks of the subnets, {part.value} is not",
                f"choose it from {_list(network.subnets)}",
            )


def _check_parts(network: NetworkSpec) -> None:
    """reservedSubnets and infrastructureSubnets."""
    for name, parts in (
        ("reservedSubnets", network.reserved_subnets),
        ("infrastructureSubnets", network.infrastructure_subnets),
    ):
        if parts and not network.has("subnets") and network.role == PRIMARY:
            network.fields.get(name).refuse(f"{name} must be unset when subnets is unset", "remove it")
        _check_inside_subnets(network, name, parts)
    for one, other in combinations((*network.reserved_subnets, *network.infrastructure_subnets), 2):
        if one.value.version == other.value.version and one.value.overlaps(other.value):
            other.node.refuse(
                f"reservedSubnets and infrastructureSubnets must not overlap: {one.value} and {other.value}",
                "change one of them",
            )


def _check_gateways(network: NetworkSpec) -> None:
    """defaultGatewayIPs."""
    gateways = network.default_gateway_ips
    if not gateways or network.role != PRIMARY or not network.has("subnets"):
        return
    _check_families(gateways)
    for gateway in gateways:
        if not any(gateway.value in subnet.value for subnet in network.subnets):
            gateway.node.refuse(
                f"defaultGatewayIPs must belong to one of the subnets, {gateway.value} does not",
                f"choose it from {_list(network.subnets)}",
            )
        elif network.infrastructure_subnets and not any(
            gateway.value in part.value for part in network.infrastructure_subnets
        ):
            gateway.node.refuse(
                f"defaultGatewayIPs must belong to infrastructureSubnets, {gateway.value} does not",
                f"choose it from {_list(network.infrastructure_subnets)}",
            )
    if len(network.fields.get("defaultGatewayIPs").value) < len(network.subnets):
        network.fields.get("defaultGatewayIPs").refuse(
            "defaultGatewayIPs must be set for all IP families of the subnets", "write one address per subnet"
        )


def _check_layer2_size(network: NetworkSpec) -> None:
    excluded = [field.value for field in network.exclude_subnets]
    for subnet in network.subnets:
        usable = usable_addresses(subnet.value, excluded)
        if network.role == PRIMARY and usable < _LEAST_LAYER2_ADDRESSES:
            subnet.node.refuse(
                f"subnet {subnet.value} is too small for its hosts, it has {usable} usable addresses",
                f"leave at least {_LEAST_LAYER2_ADDRESSES}",
            )


def _check_localnet(network: NetworkSpec) -> None:
    if network.role == PRIMARY:
        network.fields.get("role").refuse(
            "Topology localnet is not supported for primary network", "set role to Secondary"
        )
    # The flat form has no such field; there the network's own name is the physical network's.
    if not network.fields.has_known("topology"):
        network.fields.require("physicalNetworkName", "name the physical network of the bridge mapping")


def _list(fields: tuple) -> str:
    return " or ".join(str(field.value) for field in fields)
