# SPDX-License-Identifier: Apache-2.0
"""Address arithmetic: MACs, link-local addresses, subnet pairs, fixed offsets.

The numbers are ovn-kubernetes's own, so that its documentation also applies to Heddle.
"""

from __future__ import annotations

import functools
import hashlib
import ipaddress
from collections.abc import Iterable, Iterator

GATEWAY_OFFSET = 1
MANAGEMENT_OFFSET = 2
# Groups of zeros of an IPv6 address, of which the first of the most is left out; a single one is not.
_ZEROS = tuple(":" + "0:" * count for count in range(8, 1, -1))


def family(text: str) -> int:
    """Return 4 or 6 for an address, interface or subnet in text form."""
    return 6 if ":" in text else 4


@functools.lru_cache(maxsize=8192)
def mac_of_address(address: str) -> str:
    """Return the MAC that ovn-kubernetes derives from an address.

    IPv4: `0a:58` and the four octets. IPv6: `0a:58` and the first four bytes of the SHA-256 of the address's text.
    """
    text = plain(address)
    if family(text) == 4:
        # Of every workload, and more than any cache holds: ipaddress takes several times as long.
        tail = bytes(map(int, text.split(".")))
    else:
        tail = hashlib.sha256(str(ipaddress.ip_address(text)).encode()).digest()[:4]
    return (b"\x0a\x58" + tail).hex(":")


def link_local_address(mac: str) -> str:
    """Return the EUI-64 link-local IPv6 address of a MAC (RFC 4291, appendix A)."""
    octets = bytearray(int(part, 16) for part in mac.split(":"))
    octets[0] ^= 0x02
    interface = bytes(octets[:3]) + b"\xff\xfe" + bytes(octets[3:])
    return str(ipaddress.IPv6Address(b"\xfe\x80" + bytes(6) + interface))


@functools.lru_cache(maxsize=8192)
def network_of(subnet: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    """Return a subnet as an object. Cached: many networks have the same subnets, and parsing is expensive."""
    return ipaddress.ip_network(subnet)


@functools.lru_cache(maxsize=8192)
def nth_address(subnet: str, offset: int) -> str:
    """Return the address at `offset` from the subnet's base, without a prefix length."""
    return str(network_of(subnet)[offset])


@functools.lru_cache(maxsize=8192)
def subnet_of(interface: str) -> str:
    """Return the subnet that an address with prefix length is in."""
    return str(ipaddress.ip_interface(interface).network)


@functools.lru_cache(maxsize=8192)
def reverse_name(address: str) -> str:
    """Return the domain name that leads from an address to its names (RFC 1035, 3.5; RFC 3596, 2.5)."""
    return ipaddress.ip_address(address).reverse_pointer


def nth_interface(subnet: str, offset: int) -> str:
    """Return the address at `offset` from the subnet's base, with the subnet's prefix length."""
    return f"{nth_address(subnet, offset)}/{prefix_length(subnet)}"


def prefix_length(subnet: str) -> int:
    """Return the prefix length of a subnet or interface."""
    return int(subnet.partition("/")[2])


def plain(interface: str) -> str:
    """Return an interface's address without its prefix length."""
    return interface.partition("/")[0]


def host_route(address: str) -> str:
    """Return the address as a subnet of one: /32 or /128."""
    return f"{plain(address)}/{32 if family(address) == 4 else 128}"


def transit_pair(transit_subnet: str, node_id: int) -> tuple[str, str]:
    """Return a node's two interfaces of a Layer2 transit subnet: (transit router side, gateway router side).

    Addresses 2*id and 2*id+1 with /31 or /127 (OKEP-5094, "Transit router", as ovn-kubernetes numbers them).
    """
    length = 31 if family(transit_subnet) == 4 else 127
    return tuple(f"{nth_address(transit_subnet, 2 * node_id + side)}/{length}" for side in (0, 1))


def masquerade_pair(masquerade_subnet: str, network_id: int) -> tuple[str, str]:
    """Return a user-defined network's masquerade addresses on a node: (gateway router, management port)."""
    offset = 10 + 2 * network_id
    return nth_address(masquerade_subnet, offset - 1), nth_address(masquerade_subnet, offset)


@functools.lru_cache(maxsize=8192)
def overlapping(first: str, second: str) -> bool:
    """Return whether two subnets overlap; those of different families never do."""
    one, two = network_of(first), network_of(second)
    return one.version == two.version and one.overlaps(two)


def is_within(address: str, subnets: Iterable[str]) -> bool:
    """Return whether an address, without a prefix length, is in one of the subnets."""
    own = ipaddress.ip_address(address)
    return any(own.version == subnet.version and own in subnet for subnet in map(network_of, subnets))


def subnet_capacity(cidr: str, host_prefix: int) -> int:
    """Return how many host subnets of the given prefix length a subnet holds."""
    return 2 ** max(0, host_prefix - prefix_length(cidr))


@functools.lru_cache(maxsize=8192)
def nth_subnet(cidr: str, host_prefix: int, index: int) -> str:
    """Return the host subnet number `index` of a cluster subnet.

    Cached: a Layer3 network has one for each host, so a fleet has millions, and many networks have the same subnets.
    """
    network = network_of(cidr)
    base = int(network.network_address) + (index << (network.max_prefixlen - host_prefix))
    return f"{address_text(network.version, base)}/{host_prefix}"


def address_text(version: int, number: int) -> str:
    """Return the text of an address that is a number, as `ipaddress` has it (RFC 5952), in about half of its time."""
    if version == 4:
        return f"{number >> 24}.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
    text = f":{':'.join([f'{number >> shift & 0xFFFF:x}' for shift in range(112, -1, -16)])}:"
    for zeros in _ZEROS:
        before, found, after = text.partition(zeros)
        if found:
            return f"{before[1:]}::{after[:-1]}"
    return text[1:-1]


def free_addresses(subnet: str, taken: set[str], excluded: Iterable[str] = ()) -> Iterator[str]:
    """Yield the assignable addresses of a subnet, lowest first.

    Skips the network address, an IPv4 broadcast address, what is taken, and whole excluded subnets in one step.
    """
    network = network_of(subnet)
    holes = sorted(
        (int(hole[0]), int(hole[-1])) for hole in map(network_of, excluded) if hole.version == network.version
    )
    last = int(network[-1]) - (1 if network.version == 4 and network.prefixlen < 31 else 0)
    number = int(network[0]) + 1
    while number <= last:
        hole_end = next((end for start, end in holes if start <= number <= end), None)
        if hole_end is not None:
            number = hole_end + 1
            continue
        text = address_text(network.version, number)
        if text not in taken:
            yield text
        number += 1
