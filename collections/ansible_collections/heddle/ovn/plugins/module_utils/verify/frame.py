# SPDX-License-Identifier: Apache-2.0
"""Raw Ethernet frames that routing would not produce: from an external host straight to a node's MAC."""

from __future__ import annotations

import ipaddress
import json
import socket
import struct
from dataclasses import dataclass

from ..common.addressing import family
from ..common.subprocesses import run

_ETHERTYPE = {4: 0x0800, 6: 0x86DD}
_UDP, _TIME_TO_LIVE = 17, 64


@dataclass(frozen=True)
class Interface:
    """A network interface that has an address."""

    name: str
    mac: str


def interface_of(address: str) -> Interface | None:
    """Return the interface of this host that has an address, None when there is none."""
    for link in json.loads(run(["ip", "-json", "address", "show"])):
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
    """Return an Ethernet frame with a UDP datagram; each pair is (source, target)."""
    source, target = (ipaddress.ip_address(address).packed for address in addresses)
    version = family(addresses[0])
    length = 8 + len(payload)
    datagram = struct.pack("!HHHH", *ports, length, 0) + payload
    total = _checksum(source + target + struct.pack("!II", _UDP, length) + datagram)
    datagram = datagram[:6] + struct.pack("!H", total or 0xFFFF) + datagram[8:]
    if version == 4:
        head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + length, 0, 0, _TIME_TO_LIVE, _UDP, 0) + source + target
        head = head[:10] + struct.pack("!H", _checksum(head)) + head[12:]
    else:
        head = struct.pack("!IHBB", 6 << 28, length, _UDP, _TIME_TO_LIVE) + source + target
    ends = b"".join(bytes.fromhex(mac.replace(":", "")) for mac in reversed(macs))
    return ends + struct.pack("!H", _ETHERTYPE[version]) + head + datagram


def _checksum(data: bytes) -> int:
    """The Internet checksum (RFC 1071)."""
    padded = data + b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(padded) // 2}H", padded))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
