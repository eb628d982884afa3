# SPDX-License-Identifier: Apache-2.0
"""Reports to a sender that its packet is too big for the path: ICMP "fragmentation needed", ICMPv6 "packet too big".

(RFC 792, RFC 1191; RFC 4443, section 3.2.) The answer comes from the address that the packet was for, as Weave's does:
on a Layer2 network there is no router between.
"""

from __future__ import annotations

import struct

ETHERNET_HEADER = 14
_IPV4, _IPV6 = 0x0800, 0x86DD
_ICMP, _ICMPV6 = 1, 58
_DO_NOT_FRAGMENT = 0x4000
_UNREACHABLE, _FRAGMENTATION_NEEDED, _PACKET_TOO_BIG = 3, 4, 2
_ERRORS_V4 = {3, 4, 5, 11, 12}
_IPV6_MINIMUM_MTU = 1280
_IPV4_HEADER = struct.Struct("!BBHHHBBH4s4s")
_IPV6_HEADER = struct.Struct("!IHBB16s16s")


def answer(frame, mtu):
    """The frame that goes back to the sender of `frame`, whose packets may have `mtu` bytes.

    None if it cannot be reported, and the frame has to be carried in pieces: it may be fragmented (IPv4 without
    DF), is for a group, is an ICMP error itself, or is no IP packet. IPv6 hosts take no MTU below 1280 (RFC 8200).
    """
    kind = int.from_bytes(frame[12:14], "big")
    packet = frame[ETHERNET_HEADER:]
    if frame[0] & 1 or len(packet) <= mtu:
        return None
    header = frame[6:12] + frame[:6] + frame[12:14]
    if kind == _IPV4 and (body := _answer_v4(packet, mtu)):
        return header + body
    if kind == _IPV6 and mtu >= _IPV6_MINIMUM_MTU and (body := _answer_v6(packet, mtu)):
        return header + body
    return None


def _answer_v4(packet, mtu):
    if len(packet) < _IPV4_HEADER.size:
        return None
    version, _tos, _size, _id, flags, _ttl, protocol, _checksum, source, target = _IPV4_HEADER.unpack_from(packet)
    length = (version & 0xF) * 4
    if not flags & _DO_NOT_FRAGMENT or (protocol == _ICMP and packet[length : length + 1] in map(_byte, _ERRORS_V4)):
        return None
    # The header and eight bytes are the least; more lets the sender find its socket (RFC 1812, 4.3.2.3).
    quoted = packet[: 576 - _IPV4_HEADER.size - 8]
    icmp = struct.pack("!BBHHH", _UNREACHABLE, _FRAGMENTATION_NEEDED, 0, 0, mtu) + quoted
    icmp = icmp[:2] + _checksum_of(icmp) + icmp[4:]
    total = _IPV4_HEADER.size + len(icmp)
    header = _IPV4_HEADER.pack(0x45, 0, total, 0, _DO_NOT_FRAGMENT, 64, _ICMP, 0, target, source)
    return header[:10] + _checksum_of(header) + header[12:] + icmp


def _answer_v6(packet, mtu):
    if len(packet) < _IPV6_HEADER.size:
        return None
    _version, _size, following, _hops, source, target = _IPV6_HEADER.unpack_from(packet)
    # ICMPv6 types below 128 are errors.
    if following == _ICMPV6 and packet[_IPV6_HEADER.size : _IPV6_HEADER.size + 1] < b"\x80":
        return None
    quoted = packet[: _IPV6_MINIMUM_MTU - _IPV6_HEADER.size - 8]
    icmp = struct.pack("!BBHI", _PACKET_TOO_BIG, 0, 0, mtu) + quoted
    pseudo = target + source + struct.pack("!II", len(icmp), _ICMPV6)
    icmp = icmp[:2] + _checksum_of(pseudo + icmp) + icmp[4:]
    return _IPV6_HEADER.pack(6 << 28, len(icmp), _ICMPV6, 255, target, source) + icmp


def _byte(number):
    return bytes((number,))


def _checksum_of(data):
    """The checksum of the Internet (RFC 1071)."""
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return struct.pack("!H", ~total & 0xFFFF)
