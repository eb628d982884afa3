# SPDX-License-Identifier: Apache-2.0
"""The two ways to write a user-defined network: flat (OKEP-5193, "API Details") and nested (the current API)."""

from __future__ import annotations

from .addresses import read_addresses, read_cidr, read_cidrs
from .network import LAYER2, LAYER3, LOCALNET, PRIMARY, SECONDARY, Ipam, NetworkSpec, Subnet
from .network_rules import check_network
from .node import Fields, Node
from .problem import show

_FLAT_ONLY = ("role", "mtu", "subnets", "excludeSubnets", "joinSubnets", "ipam", "ipamLifecycle")
_FLAT = ("topology", *_FLAT_ONLY)
_NESTED_ONLY = ("reservedSubnets", "infrastructureSubnets", "defaultGatewayIPs", "physicalNetworkName", "vlan")
_SECTIONS = {"layer2": LAYER2, "layer3": LAYER3, "localnet": LOCALNET}
_UNSUPPORTED = ("transport", "noOverlay", "evpn")
_NESTED = ("topology", *_SECTIONS, *_UNSUPPORTED)
_SECTION_FIELDS = {
    LAYER2: (
        "role",
        "mtu",
        "subnets",
        "reservedSubnets",
        "infrastructureSubnets",
        "defaultGatewayIPs",
        "joinSubnets",
        "ipam",
    ),
    LAYER3: ("role", "mtu", "subnets", "joinSubnets"),
    LOCALNET: ("role", "physicalNetworkName", "subnets", "excludeSubnets", "vlan", "ipam", "mtu"),
}
_SECTION_REMEDIES = {
    LAYER2: {"excludeSubnets": "use reservedSubnets, only Localnet and the flat form have excludeSubnets"},
    LAYER3: {
        "excludeSubnets": "only Localnet and the flat form of Layer2 have excludeSubnets",
        "ipam": "remove it, Layer3 always assigns addresses",
    },
    LOCALNET: {"joinSubnets": "remove it; only a Primary network has join subnets"},
}
_LEAST_MTU = 576
_LARGEST_MTU = 65536
_MOST_SUBNETS = {LAYER3: 400}
_LAYER3_ENTRY_REMEDY = "write {cidr: 10.128.0.0/16, hostSubnet: 24}"
_LAYER3_TEXT_REMEDY = "write 10.128.0.0/16/24 to give every host a /24"


def read_network(node: Node, topologies: tuple[str, ...]) -> dict | None:
    """The normal form of a network in either form, or None when its topology cannot be told."""
    sections = [name for name in _SECTIONS if isinstance(node.value, dict) and node.value.get(name) is not None]
    flat = isinstance(node.value, dict) and not sections and any(name in node.value for name in _FLAT_ONLY)
    network = _read_flat(node, topologies) if flat else _read_nested(node, sections, topologies)
    return network.normal_form() if network else None


def _read_topology(fields: Fields, topologies: tuple[str, ...]) -> str | None:
    node = fields.require("topology", f"set it to {' or '.join(topologies)}")
    if node is None:
        return None
    if node.value == LOCALNET and LOCALNET not in topologies:
        node.refuse(
            "Localnet is supported for ClusterUserDefinedNetwork only",
            "write a ClusterUserDefinedNetwork that selects this namespace",
        )
        return None
    return node.choice(topologies)


def _read_flat(node: Node, topologies: tuple[str, ...]) -> NetworkSpec:
    fields = node.mapping(_FLAT, dict.fromkeys(_NESTED_ONLY, "write the nested form, as in layer2: {...}"))
    return _read_fields(fields, _read_topology(fields, topologies))


def _read_nested(node: Node, sections: list[str], topologies: tuple[str, ...]) -> NetworkSpec | None:
    fields = node.mapping(_NESTED, {name: f"write it inside {sections[0]}" for name in _FLAT_ONLY if sections})
    topology = _read_topology(fields, topologies)
    _refuse_unsupported(fields)
    networks = {}
    for name in sections:
        kind = _SECTIONS[name]
        section = fields.get(name).mapping(_SECTION_FIELDS[kind], _SECTION_REMEDIES[kind])
        networks[kind] = _read_fields(section, kind)
    if topology is None:
        return None
    wanted = next(name for name, kind in _SECTIONS.items() if kind == topology)
    for name in sections:
        if name != wanted:
            either = f"set topology to {_SECTIONS[name]}, or write {wanted} instead"
            remedy = "remove it" if wanted in sections else either
            fields.place(name).refuse(f"is required when topology is {_SECTIONS[name]} and forbidden otherwise", remedy)
    if not sections:
        fields.require(
            wanted,
            "add it with the fields of the network",
            f"is required when topology is {topology} and forbidden otherwise",
        )
    return networks.get(topology)


def _refuse_unsupported(fields: Fields) -> None:
    """Name what the current API has and Heddle has not; one mistake even when several of its fields are set."""
    written = [name for name in _UNSUPPORTED if fields.get(name)]
    if not written:
        return
    node = fields.get(written[0])
    if written[0] != "transport" or node.choice(("NoOverlay", "EVPN")):
        node.refuse("not supported by Heddle yet", f"remove {' and '.join(written)}, networks use Geneve")


def _read_fields(fields: Fields, topology: str | None) -> NetworkSpec:
    """The fields of a network, which have the same names in both forms."""
    network = NetworkSpec(
        fields=fields,
        topology=topology,
        role=_read_role(fields),
        mtu=_read_mtu(fields.get("mtu")),
        subnets=_read_subnets(fields, topology),
        join_subnets=read_cidrs(fields.get("joinSubnets"), 2),
        # Host bits are cut off here as in the source; OKEP-5193's own example is 10.0.0.100/26.
        exclude_subnets=read_cidrs(fields.get("excludeSubnets"), 25, mask=True),
        reserved_subnets=read_cidrs(fields.get("reservedSubnets"), 25),
        infrastructure_subnets=read_cidrs(fields.get("infrastructureSubnets"), 4),
        default_gateway_ips=read_addresses(fields.get("defaultGatewayIPs"), 2),
        physical_network_name=_read_physical_network_name(fields),
        vlan=_read_vlan(fields.get("vlan")),
        ipam=_read_ipam(fields),
    )
    check_network(network)
    return network


def _read_role(fields: Fields) -> str | None:
    node = fields.require("role", f"set it to {PRIMARY} or {SECONDARY}")
    return node.choice((PRIMARY, SECONDARY)) if node else None


def _read_mtu(node: Node | None) -> int | None:
    return node.integer(_LEAST_MTU, _LARGEST_MTU) if node else None


def _read_subnets(fields: Fields, topology: str | None) -> tuple[Subnet, ...]:
    node = fields.get("subnets")
    if node is None:
        return ()
    flat = fields.has_known("topology")
    subnets = []
    for item in node.sequence(0, _MOST_SUBNETS.get(topology, 2)):
        if topology == LAYER3 and not flat:
            subnets.append(_read_subnet_object(item))
        else:
            subnets.append(_read_subnet_text(item, topology))
    return tuple(subnet for subnet in subnets if subnet)


def _read_subnet_text(node: Node, topology: str | None) -> Subnet | None:
    """``10.0.0.0/24``; for Layer3 also ``10.128.0.0/16/24``, where every host gets a /24."""
    if isinstance(node.value, dict):
        node.refuse("expected text, got a mapping", "write a CIDR, as in 10.0.0.0/24")
        return None
    text = node.text()
    if text is None:
        return None
    host_subnet = None
    if text.count("/") == 2 and topology in (LAYER3, None):
        text, _slash, host_text = text.rpartition("/")
        if not (host_text.isascii() and host_text.isdecimal() and 1 <= int(host_text[:4]) <= 127):
            node.refuse(f"host subnet must be an integer from 1 to 127, got {show(host_text)}", _LAYER3_TEXT_REMEDY)
            return None
        host_subnet = int(host_text)
    field = read_cidr(node, text)
    return Subnet(node, node, field.value, host_subnet) if field else None


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
    return Subnet(cidr, fields.place("hostSubnet"), field.value, host_subnet)


def _read_ipam(fields: Fields) -> Ipam:
    """``ipam``, and ``ipamLifecycle`` of OKEP-5193's first example, which means ``ipam.lifecycle``."""
    mode = lifecycle = None
    node = fields.get("ipam")
    if node:
        ipam = node.mapping(("mode", "lifecycle"))
        if node.value == {}:
            node.refuse("must have at least one of mode and lifecycle", "remove it to use the defaults")
        mode_node, lifecycle_node = ipam.get("mode"), ipam.get("lifecycle")
        mode = mode_node.choice(("Enabled", "Disabled")) if mode_node else None
        lifecycle = lifecycle_node.choice(("Persistent",)) if lifecycle_node else None
    node = fields.get("ipamLifecycle")
    if node:
        lifecycle = node.choice(("Persistent",)) or lifecycle
    return Ipam(mode or "Enabled", lifecycle)


def _read_physical_network_name(fields: Fields) -> str | None:
    node = fields.get("physicalNetworkName")
    name = node.text() if node else None
    if name is None:
        return None
    if not 1 <= len(name) <= 253:
        node.refuse(f"must have 1 to 253 characters, got {len(name)}")
    elif "," in name or ":" in name:
        node.refuse(f"{show(name)} cannot contain ',' or ':'")
    return name


def _read_vlan(node: Node | None) -> int | None:
    if node is None:
        return None
    fields = node.mapping(("mode", "access"))
    mode = fields.require("mode", "set it to Access")
    if mode is None or mode.choice(("Access",)) is None:
        return None
    access = fields.require(
        "access", "write {mode: Access, access: {id: 100}}", "vlan access config is required when mode is Access"
    )
    identifier = access.mapping(("id",)).require("id", "set it to the VLAN number") if access else None
    return identifier.integer(1, 4094) if identifier else None
