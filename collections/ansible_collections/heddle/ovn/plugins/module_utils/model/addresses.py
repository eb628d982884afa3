# SPDX-License-Identifier: Apache-2.0
"""Fields that hold CIDRs and IP addresses.

The syntax is that of the Kubernetes validators: no netmasks, no leading zeros, no zones, no IPv4-mapped IPv6.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Union

from .node import Node
from .problem import show

_CIDR = re.compile(r"([0-9A-Fa-f:.]{2,39})/(0|[1-9][0-9]{0,2})")
_CIDR_REMEDY = "write a network and a prefix length, as in 10.0.0.0/24 or fd00:10::/64"
_ADDRESS_REMEDY = "write an address without a prefix length, as in 10.0.0.1 or fd00:10::1"

# The linter of ansible-test takes `|` between classes for an operation that fails.
Address = Union[ipaddress.IPv4Address, ipaddress.IPv6Address]  # noqa: UP007
Network = Union[ipaddress.IPv4Network, ipaddress.IPv6Network]  # noqa: UP007


@dataclass(frozen=True)
class AddressField:
    """An address and the field that holds it."""

    node: Node
    value: Address


@dataclass(frozen=True)
class NetworkField:
    """A network and the field that holds it."""

    node: Node
    value: Network


def parse_address(text: str) -> Address | None:
    """An IP address, or None."""
    try:
        address = ipaddress.ip_address(text) if len(text) <= 39 and "%" not in text else None
    except ValueError:
        return None
    mapped = isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None
    return None if mapped else address


def parse_cidr(text: str) -> tuple[Address, Network] | None:
    """The address as written and its masked network, or None."""
    match = _CIDR.fullmatch(text)
    address = parse_address(match.group(1)) if match else None
    if address is None or int(match.group(2)) > address.max_prefixlen:
        return None
    return address, ipaddress.ip_network((address, int(match.group(2))), strict=False)


def read_cidr(node: Node, text: str | None = None, mask: bool = False) -> NetworkField | None:
    """A CIDR, by default the text of the field itself.

    Host bits are a mistake, unless ``mask`` says that they are cut off. A network is returned in both cases, so that
    further rules can be checked.
    """
    text = node.text() if text is None else text
    if text is None:
        return None
    parsed = parse_cidr(text)
    if parsed is None:
        node.refuse(f"CIDR is invalid: {show(text)}", _CIDR_REMEDY)
        return None
    address, network = parsed
    if address != network.network_address and not mask:
        node.refuse(f"host bits are set in {show(text)}, it must be a masked network address", f"write {network}")
    return NetworkField(node, network)


def read_address(node: Node) -> AddressField | None:
    """An IP address."""
    text = node.text()
    if text is None:
        return None
    address = parse_address(text)
    if address is None:
        node.refuse(f"IP is invalid: {show(text)}", _ADDRESS_REMEDY)
        return None
    return AddressField(node, address)


def read_cidrs(node: Node | None, most: int, mask: bool = False) -> tuple[NetworkField, ...]:
    """A list of CIDRs; those that are valid are returned."""
    if node is None:
        return ()
    fields = [read_cidr(item, mask=mask) for item in node.sequence(1, most)]
    return tuple(field for field in fields if field)


def read_addresses(node: Node | None, most: int) -> tuple[AddressField, ...]:
    """A list of IP addresses; those that are valid are returned."""
    if node is None:
        return ()
    fields = [read_address(item) for item in node.sequence(1, most)]
    return tuple(field for field in fields if field)


def contains(outer: Network, inner: Network) -> bool:
    """Whether a network contains another one; never true across families."""
    return outer.version == inner.version and inner.subnet_of(outer)
