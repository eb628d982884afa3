# SPDX-License-Identifier: Apache-2.0
"""Probes have the form of tunnelled packets, so that whatever treats those differently treats probes so as well.

UDP datagrams to the port of the encapsulation, with its header and an Ethernet frame inside. The network identifier is
0, which no network has, and the frame has an EtherType for experiments (IEEE Std 802, 0x88b5), so that Open vSwitch
drops what it receives. Frames hold a `Probe`, and zeros up to the wanted size.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address

from ..types.encapsulation import GENEVE, VXLAN, Encapsulation

ETHERTYPE = 0x88B5
# Length of the IP packets, in bytes, that show that anything arrives at all, and of acknowledgements, which are shorter
# than what they acknowledge.
CONTROL, ACKNOWLEDGEMENT = 320, 160
PROBE, ACK = 0, 1
_KINDS = (GENEVE, VXLAN)
# RFC 8926, section 3.4: two words of options, a critical one among them, Ethernet inside. The option is OVN's
# (ovn-architecture(7), "Tunnel Encapsulations"), with no ports.
_GENEVE_HEADER = struct.pack(">BBHI HBB I", 2, 0x40, 0x6558, 0, 0x0102, 0x80, 1, 0)
# RFC 7348, section 5.
_VXLAN_HEADER = struct.pack(">II", 0x08 << 24, 0)
_HEADERS = {GENEVE.kind: _GENEVE_HEADER, VXLAN.kind: _VXLAN_HEADER}
# Locally administered addresses that no interface has.
_ETHERNET = bytes.fromhex("026864700002") + bytes.fromhex("026864700001") + struct.pack(">H", ETHERTYPE)
_BODY = struct.Struct(">8s16sBBHI16s16s")
_MAGIC = b"heddlepa"
_IP_AND_UDP = {4: 20 + 8, 6: 40 + 8}


@dataclass(frozen=True)
class Probe:
    """A probe from `source` to `target`, or its acknowledgement, which goes the other way with the same content.

    `token` has 16 bytes that all hosts of one measurement share, `size` is the length of the IP packet in bytes,
    `number` the round of the search.
    """

    token: bytes
    kind: int
    encapsulation: str
    size: int
    number: int
    source: str
    target: str


def datagram(probe: Probe, overlay: Encapsulation, size: int) -> bytes:
    """Return the payload of a UDP datagram that is an IP packet of `size` bytes, in an encapsulation."""
    body = _BODY.pack(
        _MAGIC, probe.token, probe.kind, [one.kind for one in _KINDS].index(probe.encapsulation), probe.size,
        probe.number, _packed(probe.source), _packed(probe.target),
    )  # fmt: skip
    head = _HEADERS[overlay.kind] + _ETHERNET + body
    return head.ljust(size - _IP_AND_UDP[ip_address(probe.source).version], b"\0")


def read_datagram(payload: bytes, overlay: Encapsulation) -> Probe | None:
    """Return the probe in the payload of a UDP datagram, None if it is none, or not whole."""
    return read_frame(payload[len(_HEADERS[overlay.kind]) :], overlay)


def read_frame(frame: bytes, overlay: Encapsulation) -> Probe | None:
    """Return the probe in an Ethernet frame that came by this encapsulation, None if it is none, or not whole."""
    if len(frame) < len(_ETHERNET) + _BODY.size or frame[12:14] != _ETHERNET[12:14]:
        return None
    magic, token, kind, number_of_kind, size, number, source, target = _BODY.unpack_from(frame, len(_ETHERNET))
    if magic != _MAGIC or kind not in (PROBE, ACK) or number_of_kind >= len(_KINDS):
        return None
    probe = Probe(token, kind, _KINDS[number_of_kind].kind, size, number, _address(source), _address(target))
    expected = ACKNOWLEDGEMENT if kind == ACK else size
    whole = len(frame) - len(_ETHERNET) == expected - overlay.overhead[ip_address(probe.source).version]
    return probe if whole else None


def _packed(address: str) -> bytes:
    found = ip_address(address)
    return found.packed if isinstance(found, IPv6Address) else bytes(10) + b"\xff\xff" + found.packed


def _address(packed: bytes) -> str:
    found = IPv6Address(packed)
    return str(IPv4Address(packed[12:]) if found.ipv4_mapped else found)
