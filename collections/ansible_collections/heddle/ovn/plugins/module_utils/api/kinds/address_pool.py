# SPDX-License-Identifier: Apache-2.0
"""AddressPool (Coil v2): subnets that blocks of addresses for workloads are carved out of."""

from __future__ import annotations

from ..addresses import parse_cidr
from ..coil.coil import COIL_VERSIONS
from ..kind import Kind
from ..node import Fields, Node
from ..problem import show

DEFAULT_BITS = 5
_MOST_BITS = 2**31 - 1
_FAMILIES = {"ipv4": 4, "ipv6": 6}


def _read_spec(node: Node) -> dict | None:
    if node.value is None:
        node.refuse("Required value", "add it with subnets")
        return None
    fields = node.mapping(("blockSizeBits", "subnets"))
    bits, subnets = fields.get("blockSizeBits"), fields.require("subnets", "list at least one subnet")
    size = bits.integer(0, _MOST_BITS) if bits else DEFAULT_BITS
    items = subnets.sequence(1) if subnets else []
    return {"blockSizeBits": size, "subnets": [_read_subnet(item, size) for item in items]}


def _read_subnet(node: Node, bits: int | None) -> dict:
    fields = node.mapping(_FAMILIES)
    given = {name: fields.get(name) for name in _FAMILIES if fields.get(name)}
    if isinstance(node.value, dict) and not given and not set(node.value) - set(_FAMILIES):
        node.refuse("invalid subnet: neither ipv4 nor ipv6 is given", "write one of them, or both")
    networks = {name: _read_network(fields, name) for name in given}
    sizes = {}
    for name, network in networks.items():
        if network is None:
            continue
        sizes[name] = network.max_prefixlen - network.prefixlen
        if bits is not None and sizes[name] < bits:
            given[name].refuse(
                f"invalid subnet: {network} is too narrow for blocks of {bits} bits",
                "make the subnet larger, or blockSizeBits smaller",
            )
    if len(set(sizes.values())) > 1:
        node.refuse(
            f"invalid subnet: {networks['ipv4']} and {networks['ipv6']} differ in size: "
            f"{sizes['ipv4']} and {sizes['ipv6']} bits",
            f"an IPv6 subnet of the same size has the prefix length {128 - sizes['ipv4']}",
        )
    return {name: str(network) for name, network in networks.items() if network is not None}


def _read_network(fields: Fields, name: str):
    """The subnet of one family; as in Coil host bits are cut off."""
    node = fields.get(name)
    text = node.text()
    if text is None:
        return None
    parsed = parse_cidr(text)
    if parsed is None or parsed[1].version != _FAMILIES[name]:
        node.refuse(
            f"invalid subnet: {show(text)} is no IPv{_FAMILIES[name]} CIDR",
            "write a network and a prefix length, as in 10.2.0.0/16 or fd02::/112",
        )
        return None
    return parsed[1]


KIND = Kind(name="AddressPool", api_versions=COIL_VERSIONS, namespaced=False, read_spec=_read_spec)
