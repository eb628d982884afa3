# SPDX-License-Identifier: Apache-2.0
"""Reads and ends tracked connections of the current network namespace (linux/netfilter/nfnetlink_conntrack.h)."""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Collection
from dataclasses import dataclass

from ..kernel import read_whole
from .messages import FAMILIES
from .raw_messages import NETLINK_NETFILTER, attributes
from .raw_socket import RawSocket, attribute

_CONNTRACK = 1 << 8
_GET, _DELETE = _CONNTRACK | 1, _CONNTRACK | 2
_HEADER = struct.Struct("=BBH")
_TUPLE_ORIG, _TUPLE_REPLY, _TUPLE_IP, _TUPLE_PROTO, _TUPLE_ZONE, _NESTED = 1, 2, 1, 2, 3, 0x8000
_PROTO_NUMBER, _DST_PORT = 1, 3
_SOURCE, _DESTINATION = {4: 1, 6: 3}, {4: 2, 6: 4}


@dataclass(frozen=True)
class Flow:
    """A flow to `address` and `port` that was translated to `target`; `original` is what the kernel knows it by."""

    version: int
    address: str
    port: int
    target: str
    original: bytes


@read_whole
def read_flows(ports: Collection[int]) -> list[Flow]:
    """Return the UDP flows to some ports."""
    found = []
    with RawSocket(NETLINK_NETFILTER) as netlink:
        for version, family in FAMILIES.items():
            for body in netlink.dump(_GET, _HEADER.pack(family, 0, 0)):
                values = attributes(body[_HEADER.size :])
                original, reply = values[_TUPLE_ORIG], values[_TUPLE_REPLY]
                port = _udp_port(original)
                if _HEADER.unpack_from(body)[0] != family or port not in ports:
                    continue
                address = attributes(attributes(original)[_TUPLE_IP])[_DESTINATION[version]]
                target = attributes(attributes(reply)[_TUPLE_IP])[_SOURCE[version]]
                texts = [socket.inet_ntop(family, packed) for packed in (address, target)]
                found.append(Flow(version, texts[0], port, texts[1], original))
    return found


def _udp_port(original: bytes) -> int | None:
    """Return the destination port of a flow, None of another protocol's."""
    values = attributes(attributes(original)[_TUPLE_PROTO])
    is_udp = values[_PROTO_NUMBER][0] == socket.IPPROTO_UDP
    return struct.unpack(">H", values[_DST_PORT][:2])[0] if is_udp else None


def end_flow(flow: Flow) -> None:
    """End a flow: its next packet begins a new one. One that is gone is no error."""
    with RawSocket(NETLINK_NETFILTER) as netlink:
        _end(netlink, FAMILIES[flow.version], flow.original)


def end_flows(places: Collection[tuple[str, int]]) -> None:
    """End the UDP flows to addresses and ports; OSError if refused."""
    for flow in read_flows({port for _address, port in places}):
        if (flow.address, flow.port) in places:
            end_flow(flow)


def end_connections(zones: Collection[int]) -> None:
    """End the connections whose original direction, and not the reply, is in one of the zones; OSError if refused.

    The kernel could end those of a zone by itself since Linux 6.8; before, it ignores the zone and ends all.
    """
    with RawSocket(NETLINK_NETFILTER) as netlink:
        for family, original in _originals(netlink):
            zone = attributes(original).get(_TUPLE_ZONE)
            if zone is not None and int.from_bytes(zone[:2], "big") in zones:
                _end(netlink, family, original)


@read_whole
def _originals(netlink: RawSocket) -> list[tuple[int, bytes]]:
    """Return the address family and the original direction of all connections."""
    return [
        (body[0], attributes(body[_HEADER.size :])[_TUPLE_ORIG])
        for body in netlink.dump(_GET, _HEADER.pack(socket.AF_UNSPEC, 0, 0))
    ]


def _end(netlink: RawSocket, family: int, original: bytes) -> None:
    """End one connection; one that is gone is no error."""
    body = _HEADER.pack(family, 0, 0) + attribute(_TUPLE_ORIG | _NESTED, original)
    try:
        netlink.request((_DELETE, 0, body))
    except OSError as error:
        if error.errno != errno.ENOENT:
            raise
