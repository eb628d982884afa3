# SPDX-License-Identifier: Apache-2.0
"""The two forms of a user-defined network: flat (OKEP-5193, "API Details") and nested (the current API)."""

from __future__ import annotations

from ..node import Fields, Node
from .network import LAYER2, LAYER3, LOCALNET, NetworkSpec
from .network_fields import read_fields
from .network_transport import check_transport, read_transport

_FLAT_ONLY = ("role", "mtu", "subnets", "excludeSubnets", "joinSubnets", "ipam", "ipamLifecycle")
_FLAT = ("topology", *_FLAT_ONLY)
_NESTED_ONLY = ("reservedSubnets", "infrastructureSubnets", "defaultGatewayIPs", "physicalNetworkName", "vlan")
_SECTIONS = {"layer3": LAYER3, "layer2": LAYER2, "localnet": LOCALNET}
_TRANSPORT = ("transport", "noOverlay", "evpn")
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
_CLUSTER_REMEDY = "write a ClusterUserDefinedNetwork that selects this namespace"


def read_network(node: Node, topologies: tuple[str, ...], flat_too: bool = True) -> dict | None:
    """The normal form of a network, or None when its topology cannot be determined.

    ``topologies`` are those of the kind; only the kind that has Localnet has other transports. ``flat_too`` says that
    the network may be in the flat form.
    """
    sections = [name for name in _SECTIONS if isinstance(node.value, dict) and node.value.get(name) is not None]
    flat = isinstance(node.value, dict) and not sections and any(name in node.value for name in _FLAT_ONLY)
    return _read_flat(node, topologies) if flat and flat_too else _read_nested(node, sections, topologies)


def _read_topology(fields: Fields, topologies: tuple[str, ...]) -> str | None:
    node = fields.require("topology", f"set it to {' or '.join(topologies)}")
    return node.choice(topologies, {LOCALNET: _CLUSTER_REMEDY}) if node else None


def _read_flat(node: Node, topologies: tuple[str, ...]) -> dict | None:
    fields = node.mapping(_FLAT, dict.fromkeys(_NESTED_ONLY, "write the nested form, as in layer2: {...}"))
    network = read_fields(fields, _read_topology(fields, topologies), flat=True)
    return {**network.normal_form(), **read_transport(None)} if network.topology else None


def _read_nested(node: Node, sections: list[str], topologies: tuple[str, ...]) -> dict | None:
    kinds = {name: topology for name, topology in _SECTIONS.items() if topology in topologies}
    cluster = LOCALNET in topologies
    remedies = dict.fromkeys(_FLAT_ONLY, f"write it inside {sections[0] if sections else 'layer2'}")
    if not cluster:
        remedies |= dict.fromkeys(("localnet", *_TRANSPORT), _CLUSTER_REMEDY)
    fields = node.mapping(("topology", *kinds, *(_TRANSPORT if cluster else ())), remedies)
    topology = _read_topology(fields, topologies)
    networks: dict[str, NetworkSpec] = {}
    for name, kind in kinds.items():
        if fields.get(name):
            section = fields.get(name).mapping(_SECTION_FIELDS[kind], _SECTION_REMEDIES[kind])
            networks[kind] = read_fields(section, kind)
    _check_sections(fields, kinds, topology)
    transport = read_transport(fields if cluster else None)
    if topology:
        check_transport(fields, topology, networks.get(topology))
    return {**networks[topology].normal_form(), **transport} if topology in networks else None


def _check_sections(fields: Fields, kinds: dict[str, str], topology: str | None) -> None:
    """Check that the section of the topology is present, and no other one."""
    for name, kind in kinds.items() if topology else ():
        rule = f"spec.{name} is required when topology is {kind} and forbidden otherwise"
        if kind == topology:
            fields.require(name, "add it with the fields of the network", rule)
        elif fields.get(name):
            fields.get(name).refuse(rule, f"remove it, or set topology to {kind}")
