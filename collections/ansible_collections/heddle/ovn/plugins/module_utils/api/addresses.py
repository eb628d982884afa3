# SPDX-License-Identifier: Apache-2.0
"""Fields that hold CIDRs and IP addresses.

The syntax is that of the Kubernetes validators isCIDR and isIP: host bits and every spelling of IPv6 are allowed;
netmasks, leading zeros, zones and IPv4-mapped IPv6 are not.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Union

from .node import Node
from .problem import show

LONGEST_CIDR = 43
# Eight groups, the last two as IPv4: 0000:0000:0000:0000:0000:0000:255.255.255.255.
_LONGEST_ADDRESS = 45
_ADDRESS = re.compile(r"[0-9A-Fa-f:.]+")
_PREFIX_LENGTH = re.compile(r"0|[1-9][0-9]{0,2}")
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
    """A network and the field that holds it; ``masked`` says that it was written without host bits."""

    node: Node
    value: Network
    masked: bool


def parse_address(text: str) -> Address | None:
    """An IP address, or None."""
    if len(text) > _LONGEST_ADDRESS or not _ADDRESS.fullmatch(text):
        return None
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None
    return None if mapped else address


def parse_cidr(text: str) -> tuple[Address, Network] | None:
    """The address as written and its masked network, or None."""
    address_text, _slash, length = text.rpartition("/")
    address = parse_address(address_text)
    if address is None or not _PREFIX_LENGTH.fullmatch(length) or int(length) > address.max_prefixlen:
        return None
    return address, ipaddress.ip_network((address, int(length)), strict=False)


def read_cidr(node: Node, text: str | None = None) -> NetworkField | None:
    """A CIDR, by default the text of the field itself. Host bits are cut off, as everywhere in the source."""
    text = node.text(most=LONGEST_CIDR) if text is None else text
    if text is None:
        return None
    parsed = parse_cidr(text)
    if parsed is None:
        node.refuse(f"Invalid value: {show(text)}: CIDR is invalid", _CIDR_REMEDY)
        return None
    address, network = parsed
    return NetworkField(node, network, address == network.network_address)


def read_address(node: Node) -> AddressField | None:
    """An IP address."""
    text = node.text()
    if text is None:
        return None
    address = parse_address(text)
    if address is None:
        node.refuse(f"Invalid value: {show(text)}: IP is invalid", _ADDRESS_REMEDY)
        return None
    return AddressField(node, address)


def read_list(node: Node | None, most: int, read: Callable) -> tuple:
    """A list of 1 to ``most`` entries; those that ``read`` finds valid are returned."""
    if node is None:
        return ()
    return tuple(field for field in map(read, node.sequence(1, most)) if field)


def read_cidrs(node: Node | None, most: int) -> tuple[NetworkField, ...]:
    """A list of CIDRs; those that are valid are returned."""
    return read_list(node, most, read_cidr)


def read_addresses(node: Node | None, most: int) -> tuple[AddressField, ...]:
    """A list of IP addresses; those that are valid are returned."""
    return read_list(node, most, read_address)


def contains(outer: Network, inner: Network) -> bool:
    """Whether a network contains another one; never true across families."""
    return outer.version == inner.version and inner.subnet_of(outer)
