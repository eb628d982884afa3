# SPDX-License-Identifier: Apache-2.0
"""Packets to services as frames to a node's MAC: what a host with a route through that node would send.

A socket of each question holds the port that its frame is sent from, which no other packet has. Any datagram and any
TCP segment to that port is an answer, a refusal among them, whatever address it comes from: the packet was forwarded.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Callable

from ..expectations.external_flow import ExternalFlow
from .frame import Interface, tcp_frame, udp_frame

DNS_PORT = 53
_NAME = "verify.heddle.invalid"
_ANY, _INTERNET, _RECURSE = 1, 1, 0x0100
_FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}
_SIZE = 65536


def dns_question(token: int) -> bytes:
    """Return a DNS query for the address of a name (RFC 1035, section 4.1)."""
    labels = b"".join(bytes([len(part)]) + part.encode() for part in _NAME.split(".")) + b"\0"
    return struct.pack("!HHHHHH", token, _RECURSE, 1, 0, 0, 0) + labels + struct.pack("!HH", _ANY, _INTERNET)


class ServiceFrames:
    """The sockets of such questions; they are closed with `stack`."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self._stack = stack
        self._by_port: dict[tuple[int, str, int], int] = {}
        self._raw: dict[str, socket.socket] = {}

    def prepare(
        self, number: int, row: ExternalFlow, uplink: Interface, opened: socket.socket
    ) -> tuple[socket.socket, Callable[[bytes], object]]:
        """Return where answers to question `number` come in, and what sends it out of `opened`.

        OSError where this process may not open raw sockets (capabilities(7), CAP_NET_RAW).
        """
        kind = socket.SOCK_STREAM if row.protocol == "TCP" else socket.SOCK_DGRAM
        own = self._stack.enter_context(socket.socket(_FAMILIES[row.family], kind))
        own.setblocking(False)
        # Bound and not listening: it holds the port, and the kernel ends what a leak would open.
        own.bind((row.seen_as, 0))
        address, port = own.getsockname()[:2]
        macs, addresses, ports = (uplink.mac, row.mac), (row.seen_as, row.address), (port, row.port)
        self._by_port[kind, address, port] = number
        if row.protocol == "TCP":
            frame = tcp_frame(macs, addresses, ports, number)
        else:
            frame = udp_frame(macs, addresses, ports, dns_question(number & 0xFFFF))
        return self._raw_socket(row) if row.protocol == "TCP" else own, lambda _data: opened.send(frame)

    def _raw_socket(self, row: ExternalFlow) -> socket.socket:
        """Return a socket that gets a copy of all TCP segments to an address (raw(7))."""
        if row.seen_as not in self._raw:
            raw = self._stack.enter_context(socket.socket(_FAMILIES[row.family], socket.SOCK_RAW, socket.IPPROTO_TCP))
            raw.setblocking(False)
            raw.bind((row.seen_as, 0))
            self._raw[row.seen_as] = raw
        return self._raw[row.seen_as]

    def answered(self, opened: socket.socket) -> list[int]:
        """Return the numbers of the questions that were answered at a socket of `prepare`."""
        found = []
        while True:
            try:
                data = opened.recv(_SIZE)
            except OSError:
                return found
            address, port = opened.getsockname()[:2]
            kind = opened.type
            if kind == socket.SOCK_RAW:
                # Only raw sockets of IPv4 deliver the IP header (raw(7)); its length is in words.
                data = data[4 * (data[0] & 0x0F) :] if opened.family == socket.AF_INET else data
                kind, port = socket.SOCK_STREAM, int.from_bytes(data[2:4], "big")
            number = self._by_port.get((kind, address, port))
            if number is not None:
                found.append(number)
