# SPDX-License-Identifier: Apache-2.0
"""The fields of one network, which have the same names in both forms (OKEP-5193, "API Details"; the current API)."""

from __future__ import annotations

from ..addresses import read_addresses, read_cidr, read_cidrs, read_list
from ..node import Fields, Node
from ..problem import show
from .network import DISABLED, ENABLED, LAYER3, LOCALNET, PRIMARY, SECONDARY, Ipam, NetworkSpec, Subnet
from .network_rules import check_network

_LEAST_MTU = 576
_LARGEST_MTU = 65536
_MOST_SUBNETS = {LAYER3: 400}
_LAYER3_ENTRY_REMEDY = "write {cidr: 10.128.0.0/16, hostSubnet: 24}"
_LAYER3_TEXT_REMEDY = "write 10.128.0.0/16/24 to give every host a /24"


def read_fields(fields: Fields, topology: str | None, flat: bool = False) -> NetworkSpec:
    """Read all fields of a network and check its rules."""
    mtu = fields.get("mtu")
    network = NetworkSpec(
        fields=fields,
        flat=flat,
        topology=topology,
        role=_read_role(fields, topology, flat),
        mtu=mtu.integer(_LEAST_MTU, _LARGEST_MTU) if mtu else None,
        subnets=_read_subnets(fields, topology, flat),
        join_subnets=_read_join_subnets(fields, flat),
        exclude_subnets=read_cidrs(fields.get("excludeSubnets"), 25),
        reserved_subnets=read_cidrs(fields.get("reservedSubnets"), 25),
        infrastructure_subnets=read_cidrs(fields.get("infrastructureSubnets"), 4),
        default_gateway_ips=read_addresses(fields.get("defaultGatewayIPs"), 2),
        physical_network_name=_read_physical_network_name(fields),
        vlan=_read_vlan(fields.get("vlan")),
        ipam=_read_ipam(fields),
    )
    if isinstance(fields.node.value, dict):
        check_network(network)
    return network


def _read_role(fields: Fields, topology: str | None, flat: bool) -> str | None:
    roles = (SECONDARY,) if topology == LOCALNET and not flat else (PRIMARY, SECONDARY)
    node = fields.require("role", f"set it to {' or '.join(roles)}")
    return node.choice(roles) if node else None


def _read_subnets(fields: Fields, topology: str | None, flat: bool) -> tuple[Subnet, ...]:
    if topology == LAYER3 and not flat:
        fields.require("subnets", _LAYER3_ENTRY_REMEDY)
    node = fields.get("subnets")
    if node is None or (flat and topology == LAYER3 and node.value == []):
        return ()

    def read(item: Node) -> Subnet | None:
        return _read_subnet_object(item) if topology == LAYER3 and not flat else _read_subnet_text(item, topology)

    return read_list(node, _MOST_SUBNETS.get(topology, 2), read)


def _read_subnet_text(node: Node, topology: str | None) -> Subnet | None:
    """``10.0.0.0/24``; for Layer3 also ``10.128.0.0/16/24``, where every host gets a /24."""
    if isinstance(node.value, dict):
        node.refuse("expected text, got a mapping", "write a CIDR, as in 10.0.0.0/24")
        return None
    if not (isinstance(node.value, str) and node.value.count("/") == 2 and topology in (LAYER3, None)):
        field = read_cidr(node)
        return Subnet(node, node, node.value, field.value, None) if field else None
    text, _slash, host_text = node.value.rpartition("/")
    if not (host_text.isascii() and host_text.isdecimal() and 1 <= int(host_text[:4]) <= 127):
        node.refuse(f"host subnet must be an integer from 1 to 127, got {show(host_text)}", _LAYER3_TEXT_REMEDY)
        return None
    field = read_cidr(node, text)
    return Subnet(node, node, text, field.value, int(host_text)) if field else None


def _read_subnet_object(node: Node) -> Subnet | None:
    """``{cidr: 10.128.0.0/16, hostSubnet: 24}``, Layer3 in the nested form."""
    if isinstance(node.value, str):
        node.refuse(f"expected a mapping, got text {show(node.value)}", _LAYER3_ENTRY_REMEDY)
        return None
    fields = node.mapping(("cidr", "hostSubnet"))
    cidr = fields.require("cidr", _LAYER3_ENTRY_REMEDY)
    host_node = fields.get("hostSubnet")
    host_subnet = host_node.integer(1, 127) if host_node else None
    field = read_cidr(cidr) if cidr else None
    if field is None or (host_node and host_subnet is None):
        return None
    return Subnet(cidr, fields.place("hostSubnet"), cidr.value, field.value, host_subnet)


def _read_join_subnets(fields: Fields, flat: bool) -> tuple:
    node = fields.get("joinSubnets")
    if flat and node and isinstance(node.value, list) and not 1 <= len(node.value) <= 2:
        node.refuse("Unexpected number of join subnets", "write one per IP family")
        return ()
    return read_cidrs(node, 2)


def _read_ipam(fields: Fields) -> Ipam:
    """``ipam``, and ``ipamLifecycle`` of OKEP-5193's first example, which means ``ipam.lifecycle``."""
    mode, lifecycle = ENABLED, None
    node = fields.get("ipam")
    if node:
        ipam = node.mapping(("mode", "lifecycle"))
        if isinstance(node.value, dict) and all(value is None for value in node.value.values()):
            remedy = "set mode or lifecycle, or remove it to use the defaults"
            node.refuse("Invalid value: 0: must have at least one of mode and lifecycle", remedy)
        mode_node, lifecycle_node = ipam.get("mode"), ipam.get("lifecycle")
        mode = mode_node.choice((ENABLED, DISABLED)) if mode_node else ENABLED
        lifecycle = lifecycle_node.choice(("Persistent",)) if lifecycle_node else None
    node = fields.get("ipamLifecycle")
    if node:
        lifecycle = node.choice(("Persistent",)) or lifecycle
    return Ipam(mode, lifecycle)


def _read_physical_network_name(fields: Fields) -> str | None:
    node = fields.get("physicalNetworkName")
    name = node.text(1, 253) if node else None
    if name and ("," in name or ":" in name):
        node.refuse(f"Invalid value: {show(name)}: physicalNetworkName cannot contain `,` or `:` characters")
    return name


def _read_vlan(node: Node | None) -> int | None:
    if node is None:
        return None
    fields = node.mapping(("mode", "access"))
    mode = fields.require("mode", "set it to Access")
    mode_text = mode.choice(("Access",)) if mode else None
    access = fields.get("access")
    if access is None and mode_text:
        rule = "vlan access config is required when vlan mode is 'Access', and forbidden otherwise"
        fields.require("access", "write {mode: Access, access: {id: 100}}", rule)
    identifier = access.mapping(("id",)).require("id", "set it to the VLAN number") if access else None
    return identifier.integer(1, 4094) if identifier else None
