# SPDX-License-Identifier: Apache-2.0
"""Raw Ethernet frames that routing would not produce: from an external host straight to a node's MAC."""

from __future__ import annotations

import ipaddress
import socket
import struct
from dataclasses import dataclass

from ...common.addressing import family
from ..ip_command import ip

_ETHERTYPE = {4: 0x0800, 6: 0x86DD}
_TCP, _UDP, _TIME_TO_LIVE = 6, 17, 64
_HEADER_WORDS, _SYN, _WINDOW = 5, 0x002, 64240


@dataclass(frozen=True)
class Interface:
    """A network interface that has an address."""

    name: str
    mac: str


def interface_of(address: str) -> Interface | None:
    """Return the interface of this host that has an address, None when there is none."""
    for link in ip("address", "show"):
        if any(one.get("local") == address for one in link["addr_info"]):
            return Interface(link["ifname"], link["address"])
    return None


def open_interface(interface: Interface) -> socket.socket:
    """Open a socket that sends whole frames out of an interface."""
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    opened.bind((interface.name, 0))
    opened.setblocking(False)
    return opened


def udp_frame(macs: tuple[str, str], addresses: tuple[str, str], ports: tuple[int, int], payload: bytes) -> bytes:
    """Return an Ethernet frame with a UDP datagram (RFC 768); each pair is (source, target)."""
    datagram = struct.pack("!HHHH", *ports, 8 + len(payload), 0) + payload
    total = _checksum(_pseudo_header(addresses, _UDP, len(datagram)) + datagram)
    return _frame(macs, addresses, _UDP, datagram[:6] + struct.pack("!H", total or 0xFFFF) + datagram[8:])


def tcp_frame(macs: tuple[str, str], addresses: tuple[str, str], ports: tuple[int, int], sequence: int) -> bytes:
    """Return an Ethernet frame with a TCP segment that asks for a connection (RFC 9293, SYN); each pair as above."""
    words = _HEADER_WORDS << 12 | _SYN
    segment = struct.pack("!HHIIHHHH", *ports, sequence, 0, words, _WINDOW, 0, 0)
    total = _checksum(_pseudo_header(addresses, _TCP, len(segment)) + segment)
    return _frame(macs, addresses, _TCP, segment[:16] + struct.pack("!H", total) + segment[18:])


def _pseudo_header(addresses: tuple[str, str], protocol: int, length: int) -> bytes:
    """What transport checksums cover besides; that of IPv6 has the same sum as that of IPv4 (RFC 8200, 8.1)."""
    return b"".join(ipaddress.ip_address(address).packed for address in addresses) + struct.pack(
        "!II", protocol, length
    )


def _frame(macs: tuple[str, str], addresses: tuple[str, str], protocol: int, payload: bytes) -> bytes:
    source, target = (ipaddress.ip_address(address).packed for address in addresses)
    version = family(addresses[0])
    if version == 4:
        head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(payload), 0, 0, _TIME_TO_LIVE, protocol, 0) + source + target
        head = head[:10] + struct.pack("!H", _checksum(head)) + head[12:]
    else:
        head = struct.pack("!IHBB", 6 << 28, len(payload), protocol, _TIME_TO_LIVE) + source + target
    ends = b"".join(bytes.fromhex(mac.replace(":", "")) for mac in reversed(macs))
    return ends + struct.pack("!H", _ETHERTYPE[version]) + head + payload


def _checksum(data: bytes) -> int:
    """The Internet checksum (RFC 1071)."""
    padded = data + b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(padded) // 2}H", padded))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
