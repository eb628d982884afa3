# SPDX-License-Identifier: Apache-2.0
"""Rules between the fields of one network, worded as in the current API and OKEP-5193, "API Details"."""

from __future__ import annotations

from ..addresses import contains
from .network import DISABLED, ENABLED, LAYER2, LAYER3, LOCALNET, PRIMARY, SECONDARY, NetworkSpec, Subnet

_LEAST_IPV6_MTU = 1280
_MOST_SECONDARY_SUBNETS = 2
_SUBNETS_REMEDY = "list one CIDR per IP family"


def check_network(network: NetworkSpec) -> None:
    """Record every rule that the network breaks; requires a known topology."""
    if network.topology is None:
        return
    _check_primary_only(network, "joinSubnets", "JoinSubnets")
    _check_mtu(network)
    _check_families(network, "joinSubnets", network.join_subnets)
    if network.topology == LAYER3:
        _check_layer3(network)
    else:
        _check_families(network, "subnets", network.subnets)
        _check_lifecycle(network)
    if network.topology == LAYER2:
        _check_layer2(network)
    if network.topology == LOCALNET:
        _check_localnet(network)
    if network.topology != LAYER3 and network.has("excludeSubnets") and not network.has("subnets"):
        network.refuse("excludeSubnets", "excludeSubnets must be unset when subnets is unset", "remove it")


def _check_primary_only(network: NetworkSpec, name: str, title: str) -> None:
    if network.has(name) and network.role == SECONDARY:
        network.refuse(name, f"{title} is only supported for Primary network", "remove it")


def _check_mtu(network: NetworkSpec) -> None:
    # As in the API: two IPv6 subnets are not rejected.
    ipv6_subnets = sum(subnet.value.version == 6 for subnet in network.subnets)
    if ipv6_subnets == 1 and network.mtu is not None and network.mtu < _LEAST_IPV6_MTU:
        subnet = "an IPv6 subnet" if network.topology == LOCALNET else "IPv6 subnet"
        rule = f"MTU should be greater than or equal to {_LEAST_IPV6_MTU} when {subnet} is used"
        network.refuse("mtu", rule, f"write {_LEAST_IPV6_MTU} or more")


def _check_families(network: NetworkSpec, name: str, entries: tuple, what: str = "CIDRs") -> None:
    """Check that two entries of a dual-stack list differ in family."""
    if network.count(name) == len(entries) == 2 and entries[0].value.version == entries[1].value.version:
        rule = f"Invalid value: When 2 {what} are set, they must be from different IP families"
        network.refuse(name, rule, f"keep one IPv{entries[0].value.version} entry")


def _check_layer3(network: NetworkSpec) -> None:
    if network.flat:
        _check_layer3_flat(network)
    if network.role == SECONDARY:
        if network.count("subnets") > _MOST_SECONDARY_SUBNETS:
            network.refuse("subnets", "Secondary networks may define at most 2 subnets", "keep one per IP family")
        _check_secondary_families(network)
    _check_subnet_overlap(network.subnets)
    for subnet in network.subnets:
        _check_host_subnet(subnet)
    _check_same_host_subnet(network.subnets)


def _check_layer3_flat(network: NetworkSpec) -> None:
    """Fields that the flat form has for all topologies, but which are meaningless for Layer3."""
    if not network.has("subnets") or network.fields.get("subnets").value == []:
        network.refuse("subnets", "Subnets is required for Layer3 topology", _SUBNETS_REMEDY)
    if network.has("excludeSubnets"):
        rule = "excludeSubnets is supported for Layer2 and Localnet topologies"
        network.refuse("excludeSubnets", rule, "remove it")
    if network.ipam.lifecycle:
        name = "ipamLifecycle" if network.has("ipamLifecycle") else "ipam"
        network.refuse(name, "ipamLifecycle is supported for Layer2 and Localnet topologies", "remove it")
    if network.ipam.mode == DISABLED:
        network.refuse("ipam", "Disabled ipam.mode is supported for Layer2 and Localnet topologies", "remove it")


def _check_secondary_families(network: NetworkSpec) -> None:
    subnets = network.subnets
    if network.count("subnets") == len(subnets) == 2 and subnets[0].value.version == subnets[1].value.version:
        rule = "When 2 CIDRs are set for Secondary networks, they must be from different IP families"
        network.refuse("subnets", rule, f"keep one IPv{subnets[0].value.version} entry")


def _check_subnet_overlap(subnets: tuple[Subnet, ...]) -> None:
    """Check for overlaps. Sorted, a network comes right before those it contains; equal ones keep their order."""
    widest = None
    for subnet in sorted(subnets, key=lambda one: (one.value.version, one.value.network_address, one.value.prefixlen)):
        if widest is None or not contains(widest.value, subnet.value):
            widest = subnet
            continue
        if widest.text == subnet.text:
            subnet.node.refuse("Subnets with same CIDR are not allowed", "keep one of them")
        if (widest.text, widest.host_subnet) != (subnet.text, subnet.host_subnet):
            rule = f"Subnets must not overlap or contain each other: {widest.value} contains {subnet.value}"
            subnet.node.refuse(rule, "keep one of them")


def _check_host_subnet(subnet: Subnet) -> None:
    """Check the size of one host's subnet."""
    length = subnet.host_subnet
    if length is None:
        return
    if length <= subnet.value.prefixlen:
        rule = f"HostSubnet must be smaller than CIDR subnet: /{length} is not within {subnet.value}"
        subnet.host_subnet_node.refuse(rule, f"write a value above {subnet.value.prefixlen}, or a wider CIDR")
    if subnet.value.version == 4 and length >= 32:
        subnet.host_subnet_node.refuse("HostSubnet must < 32 for ipv4 CIDR", "write 24, for example")


def _check_same_host_subnet(subnets: tuple[Subnet, ...]) -> None:
    for version in (4, 6):
        family = [subnet for subnet in subnets if subnet.value.version == version]
        different = next((subnet for subnet in family if subnet.host_subnet != family[0].host_subnet), None)
        if different:
            rule = "Subnets from the same IP family must use the same hostSubnet value"
            different.host_subnet_node.refuse(rule, f"write the one of {family[0].value} everywhere")


def _check_lifecycle(network: NetworkSpec) -> None:
    if network.ipam.lifecycle and network.ipam.mode == DISABLED:
        name = "ipamLifecycle" if network.has("ipamLifecycle") else "ipam"
        rule = "lifecycle Persistent is only supported when ipam.mode is Enabled"
        network.refuse(name, rule, "remove one of them")


def _check_layer2(network: NetworkSpec) -> None:
    if network.ipam.mode == ENABLED and not network.has("subnets"):
        network.refuse("subnets", "Subnets is required with ipam.mode is Enabled or unset", _SUBNETS_REMEDY)
    if network.ipam.mode == DISABLED and network.has("subnets"):
        rule = "Subnets must be unset when ipam.mode is Disabled"
        network.refuse("subnets", rule, "remove it, or set mode to Enabled")
    if network.ipam.mode == DISABLED and network.role == PRIMARY:
        network.refuse("ipam", "Disabled ipam.mode is only supported for Secondary network", "remove mode")
    _check_gateways(network)
    for name, parts in (
        ("reservedSubnets", network.reserved_subnets),
        ("infrastructureSubnets", network.infrastructure_subnets),
    ):
        _check_part(network, name, parts)
    for infrastructure in network.infrastructure_subnets:
        for reserved in network.reserved_subnets:
            if _overlap(infrastructure.value, reserved.value):
                rule = "infrastructureSubnets and reservedSubnets must not overlap"
                reserved.node.refuse(f"{rule}: {infrastructure.value} and {reserved.value}", "change one of them")


def _check_part(network: NetworkSpec, name: str, parts: tuple) -> None:
    """reservedSubnets or infrastructureSubnets."""
    _check_primary_only(network, name, name)
    if network.has(name) and not network.has("subnets"):
        network.refuse(name, f"{name} must be unset when subnets is unset", "remove it")
    for part in parts:
        if not part.masked:
            rule = f"{name} must be a masked network address (no host bits set)"
            part.node.refuse(rule, f"write {part.value}")
        if _complete(network) and not any(contains(subnet.value, part.value) for subnet in network.subnets):
            rule = f"{name} must be subnetworks of the networks specified in the subnets field: {part.value} is not"
            part.node.refuse(rule, f"choose it from {_list(network.subnets)}")


def _check_gateways(network: NetworkSpec) -> None:
    """defaultGatewayIPs."""
    name, gateways, parts = "defaultGatewayIPs", network.default_gateway_ips, network.infrastructure_subnets
    _check_primary_only(network, name, name)
    _check_families(network, name, gateways, "IPs")
    for gateway in gateways:
        if _complete(network) and not any(gateway.value in subnet.value for subnet in network.subnets):
            rule = f"{name} must belong to one of the subnets specified in the subnets field: {gateway.value} does not"
            gateway.node.refuse(rule, f"choose it from {_list(network.subnets)}")
        if len(parts) == network.count("infrastructureSubnets") > 0 and not any(
            gateway.value in part.value for part in parts
        ):
            rule = f"{name} have to belong to infrastructureSubnets: {gateway.value} does not"
            gateway.node.refuse(rule, f"choose it from {_list(parts)}")
    if network.has(name) and _complete(network) and network.count(name) != network.count("subnets"):
        network.refuse(name, f"{name} must be specified for all IP families", "write one address per subnet")


def _check_localnet(network: NetworkSpec) -> None:
    if network.ipam.mode and (network.ipam.mode == ENABLED) != network.has("subnets"):
        rule = "Subnets is required with ipam.mode is Enabled or unset, and forbidden otherwise"
        network.refuse("subnets", rule, _SUBNETS_REMEDY if network.ipam.mode == ENABLED else "remove it")
    if network.flat and network.role == PRIMARY:
        rule = "Topology localnet is not supported for primary network"
        network.refuse("role", rule, "set role to Secondary")
    # The flat form has no such field; there the network's own name is the physical network's.
    if not network.flat:
        network.fields.require("physicalNetworkName", "name the physical network of the bridge mapping")


def _complete(network: NetworkSpec) -> bool:
    """Whether subnets were written and each of them is valid."""
    return 0 < len(network.subnets) == network.count("subnets")


def _overlap(one, other) -> bool:
    return one.version == other.version and one.overlaps(other)


def _list(fields: tuple) -> str:
    return " or ".join(str(field.value) for field in fields)
