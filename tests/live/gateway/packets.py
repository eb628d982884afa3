# SPDX-License-Identifier: Apache-2.0
"""Ethernet frames as bytes, IPv4 and IPv6: ARP, discovery of neighbours and routers, UDP, TCP without data, ICMP.

Only what the tests send or read.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from ipaddress import IPv6Network, ip_address
from pathlib import Path

ARP, IPV4, IPV6, VLAN = 0x0806, 0x0800, 0x86DD, 0x8100
ICMP, TCP, UDP, ICMPV6 = 1, 6, 17, 58
ROUTER_SOLICITATION, ROUTER_ADVERTISEMENT = 133, 134
SOLICITATION, ADVERTISEMENT = 135, 136
_PREFIX_INFORMATION = 3
SYN, _SYN_ACK = 0x02, 0x12
# Of OpenFlow 1.4: a type of messages, a buffer, a port.
_PACKET_OUT, _NO_BUFFER, _LOCAL = 13, 0xFFFFFFFF, 0xFFFFFFFE
# Bytes before the first frame of a capture file (pcap-savefile(5)).
_FILE_HEADER = 24
RESET = 0x04


def mac_bytes(mac: str) -> bytes:
    return bytes.fromhex(mac.replace(":", ""))


def mac_text(octets: bytes) -> str:
    return ":".join(f"{octet:02x}" for octet in octets)


def checksum(data: bytes) -> int:
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


@dataclass(frozen=True)
class Packet:
    """An IP packet in its frame. For an echo, `source_port` is the identifier and `target_port` 0; `kind` its type.

    For TCP `kind` has the flags, 0 for those of the answer to a SYN.
    """

    source_mac: str
    target_mac: str
    source: str
    target: str
    protocol: int
    source_port: int = 0
    target_port: int = 0
    kind: int = 0
    payload: bytes = b"heddle"

    def answer(self) -> Packet:
        """The packet that the receiver of this one would send back."""
        kinds = {8: 0, 128: 129}
        ports = (self.source_port, 0) if self.is_echo else (self.target_port, self.source_port)
        return replace(
            self,
            source_mac=self.target_mac, target_mac=self.source_mac, source=self.target, target=self.source,
            source_port=ports[0], target_port=ports[1], kind=kinds.get(self.kind, 0),
        )  # fmt: skip

    @property
    def is_echo(self) -> bool:
        return self.protocol in (ICMP, ICMPV6)

    def encode(self) -> bytes:
        source, target = ip_address(self.source), ip_address(self.target)
        if self.is_echo:
            body = struct.pack("!BBHHH", self.kind, 0, 0, self.source_port, 1) + self.payload
            place = 2
        elif self.protocol == TCP:
            body = struct.pack(
                "!HHIIBBHHH", self.source_port, self.target_port, 1000, 2000, 5 << 4, self.kind or _SYN_ACK, 0, 0, 0
            )
            place = 16
        else:
            body = struct.pack("!HHHH", self.source_port, self.target_port, 8 + len(self.payload), 0) + self.payload
            place = 6
        pseudo = source.packed + target.packed + struct.pack("!IHBB", len(body), 0, 0, self.protocol)
        total = checksum(body if self.protocol == ICMP else pseudo + body)
        body = body[:place] + struct.pack("!H", total) + body[place + 2 :]
        if source.version == 4:
            header = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(body), 1, 0, 64, self.protocol, 0)
            header += source.packed + target.packed
            header = header[:10] + struct.pack("!H", checksum(header)) + header[12:]
        else:
            header = struct.pack("!IHBB", 6 << 28, len(body), self.protocol, 64) + source.packed + target.packed
        kind = IPV4 if source.version == 4 else IPV6
        return mac_bytes(self.target_mac) + mac_bytes(self.source_mac) + struct.pack("!H", kind) + header + body


@dataclass(frozen=True)
class Question:
    """A request for an address: an ARP request or a neighbour solicitation."""

    source_mac: str
    source: str
    asked: str

    def encode(self) -> bytes:
        """The request frame."""
        own, asked, source = mac_bytes(self.source_mac), ip_address(self.asked).packed, ip_address(self.source).packed
        if len(asked) == 4:
            head = b"\xff" * 6 + own + struct.pack("!HHHBBH", ARP, 1, IPV4, 6, 4, 1)
            return head + own + source + bytes(6) + asked
        target = ip_address("ff02::1:ff00:0").packed[:13] + asked[13:]
        body = struct.pack("!BBHI", SOLICITATION, 0, 0, 0) + asked + b"\x01\x01" + own
        total = checksum(source + target + struct.pack("!IHBB", len(body), 0, 0, ICMPV6) + body)
        body = body[:2] + struct.pack("!H", total) + body[4:]
        header = struct.pack("!IHBB", 6 << 28, len(body), ICMPV6, 255) + source + target
        return b"\x33\x33" + target[12:] + own + struct.pack("!H", IPV6) + header + body

    def answer(self, mac: str) -> bytes:
        """The frame with which its holder answers."""
        to, asked, source = mac_bytes(self.source_mac), ip_address(self.asked).packed, ip_address(self.source).packed
        own = mac_bytes(mac)
        if len(asked) == 4:
            return to + own + struct.pack("!HHHBBH", ARP, 1, IPV4, 6, 4, 2) + own + asked + to + source
        body = struct.pack("!BBHI", ADVERTISEMENT, 0, 0, 0x60000000) + asked + b"\x02\x01" + own
        total = checksum(asked + source + struct.pack("!IHBB", len(body), 0, 0, ICMPV6) + body)
        body = body[:2] + struct.pack("!H", total) + body[4:]
        header = struct.pack("!IHBB", 6 << 28, len(body), ICMPV6, 255) + asked + source
        return to + own + struct.pack("!H", IPV6) + header + body


@dataclass(frozen=True)
class Answer:
    """The answer for an address: an ARP reply or a neighbour advertisement."""

    address: str
    mac: str

    def broadcast(self) -> bytes:
        """The frame with which a holder announces itself to all: a gratuitous ARP or an unsolicited advertisement."""
        own, address = mac_bytes(self.mac), ip_address(self.address).packed
        if len(address) == 4:
            return Question(self.mac, self.address, self.address).encode()
        target = ip_address("ff02::1").packed
        body = struct.pack("!BBHI", ADVERTISEMENT, 0, 0, 0x20000000) + address + b"\x02\x01" + own
        total = checksum(address + target + struct.pack("!IHBB", len(body), 0, 0, ICMPV6) + body)
        body = body[:2] + struct.pack("!H", total) + body[4:]
        header = struct.pack("!IHBB", 6 << 28, len(body), ICMPV6, 255) + address + target
        return b"\x33\x33\x00\x00\x00\x01" + own + struct.pack("!H", IPV6) + header + body


def router_solicitation(mac: str, source: str) -> bytes:
    """The frame with which a workload asks for routers (RFC 4861, section 4.1)."""
    target = ip_address("ff02::2").packed
    body = struct.pack("!BBHI", ROUTER_SOLICITATION, 0, 0, 0) + b"\x01\x01" + mac_bytes(mac)
    pseudo = ip_address(source).packed + target + struct.pack("!IHBB", len(body), 0, 0, ICMPV6)
    body = body[:2] + struct.pack("!H", checksum(pseudo + body)) + body[4:]
    header = struct.pack("!IHBB", 6 << 28, len(body), ICMPV6, 255) + ip_address(source).packed + target
    return b"\x33\x33\x00\x00\x00\x02" + mac_bytes(mac) + struct.pack("!H", IPV6) + header + body


def announced_prefixes(frame: bytes) -> list[IPv6Network]:
    """The prefixes of a router advertisement (RFC 4861, sections 4.2 and 4.6.2); none of any other frame."""
    body, found = frame[54:], []
    if frame[12:14] != struct.pack("!H", IPV6) or frame[20] != ICMPV6 or body[0] != ROUTER_ADVERTISEMENT:
        return found
    options = body[16:]
    while options:
        if options[0] == _PREFIX_INFORMATION:
            found.append(IPv6Network((options[16:32], options[2]), strict=False))
        options = options[8 * options[1] :]
    return found


def decode(frame: bytes) -> Packet | Question | Answer | None:
    """Read a frame; None for what no test looks at."""
    target_mac, source_mac = mac_text(frame[:6]), mac_text(frame[6:12])
    kind, rest = struct.unpack("!H", frame[12:14])[0], frame[14:]
    if kind == ARP:
        if rest[7] == 2:
            return Answer(str(ip_address(rest[14:18])), mac_text(rest[8:14]))
        return Question(source_mac, str(ip_address(rest[14:18])), str(ip_address(rest[24:28])))
    if kind == IPV4:
        length = (rest[0] & 15) * 4
        source, target, protocol = ip_address(rest[12:16]), ip_address(rest[16:20]), rest[9]
        body = rest[length : struct.unpack("!H", rest[2:4])[0]]
    elif kind == IPV6:
        source, target, protocol = ip_address(rest[8:24]), ip_address(rest[24:40]), rest[6]
        body = rest[40 : 40 + struct.unpack("!H", rest[4:6])[0]]
    else:
        return None
    if protocol == ICMPV6 and body[0] == SOLICITATION:
        return Question(source_mac, str(source), str(ip_address(body[8:24])))
    if protocol == ICMPV6 and body[0] == ADVERTISEMENT:
        return Answer(str(ip_address(body[8:24])), mac_text(body[26:32]))
    found = Packet(source_mac, target_mac, str(source), str(target), protocol)
    if protocol in (ICMP, ICMPV6):
        return replace(found, kind=body[0], source_port=struct.unpack("!H", body[4:6])[0], payload=body[8:])
    if protocol == TCP:
        ports = struct.unpack("!HH", body[:4])
        flags = 0 if body[13] == _SYN_ACK else body[13]
        return replace(found, source_port=ports[0], target_port=ports[1], kind=flags, payload=b"")
    if protocol == UDP:
        ports = struct.unpack("!HH", body[:4])
        return replace(found, source_port=ports[0], target_port=ports[1], payload=body[8:])
    return None


def packet_out(frame: bytes, mark: int) -> tuple[int, bytes]:
    """Type and body of the message of OpenFlow 1.4 that lets a frame come from LOCAL, with a mark."""
    # OFPAT_SET_FIELD of NXM_NX_PKT_MARK, NXAST_RESUBMIT_TABLE of table 0 (include/openflow/nicira-ext.h).
    actions = struct.pack("!HHII4x", 25, 16, 0x00014204, mark)
    actions += struct.pack("!HHIHHB3x", 0xFFFF, 16, 0x2320, 14, 0xFFF8, 0)
    return _PACKET_OUT, struct.pack("!IIH6x", _NO_BUFFER, _LOCAL, len(actions)) + actions + frame


def tagged(frame: bytes, vlan: int) -> bytes:
    """The frame with a VLAN tag."""
    return frame[:12] + struct.pack("!HH", VLAN, vlan) + frame[12:]


def tag_of(frame: bytes) -> int:
    """The VLAN of a frame, 0 without a tag."""
    kind, tag = struct.unpack("!HH", frame[12:16])
    return tag & 0xFFF if kind == VLAN else 0


def untagged(frame: bytes) -> bytes:
    """The frame without its VLAN tag."""
    return frame[:12] + frame[16:] if tag_of(frame) else frame


def read_capture(path: Path) -> list[bytes]:
    """The frames of a capture file that is being written."""
    return read_frames(path, _FILE_HEADER)[0]


def read_frames(path: Path, place: int) -> tuple[list[bytes], int]:
    """The frames of a capture file from a place on, and where the next one will begin."""
    frames: list[bytes] = []
    if not path.exists():
        return frames, place
    with path.open("rb") as file:
        file.seek(place)
        data = file.read()
    at = 0
    while at + 16 <= len(data):
        length = struct.unpack("=I", data[at + 8 : at + 12])[0]
        if at + 16 + length > len(data):
            break
        frames.append(data[at + 16 : at + 16 + length])
        at += 16 + length
    return frames, place + at


class Capture:
    """The packets of one VLAN (0: untagged) in a capture file that is being written; each frame is decoded once."""

    def __init__(self, path: Path, vlan: int = 0) -> None:
        self._path, self._vlan, self._place = path, vlan, _FILE_HEADER
        self._packets: list[Packet | Question | Answer] = []

    def packets(self) -> list[Packet | Question | Answer]:
        """All packets until now, without what no test looks at."""
        frames, self._place = read_frames(self._path, self._place)
        found = (decode(untagged(frame)) for frame in frames if tag_of(frame) == self._vlan)
        self._packets += [packet for packet in found if packet is not None]
        return list(self._packets)

    def forget(self) -> None:
        """Leave out what was sent before."""
        self.packets()
        self._packets.clear()
