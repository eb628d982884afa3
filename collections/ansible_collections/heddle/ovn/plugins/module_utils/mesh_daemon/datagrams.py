# SPDX-License-Identifier: Apache-2.0
"""The UDP socket of the fallback overlay."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from ipaddress import ip_address

from ..common.sockets.path_mtu_discovery import PROBE_PATH_MTU

# IP_MTU (ip(7)) and IPV6_MTU (ipv6(7)).
_MTU = {4: (socket.IPPROTO_IP, 14), 6: (socket.IPPROTO_IPV6, 24)}
_HEADERS = {4: 20 + 8, 6: 40 + 8}
_LONGEST = 65535
# Datagrams handled before other tasks have their turn, and the receive buffer.
_BATCH = 64
_BUFFER = 1 << 20


class Datagrams:
    """`received(address, data)` takes what arrives. It is bound to the host's own address."""

    def __init__(self, address, port, received):
        self._version, self._port, self._received = ip_address(address).version, port, received
        self._address = address
        self._socket = self._new()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        self._socket.bind((address, port))
        asyncio.get_running_loop().add_reader(self._socket, self._read)

    def send(self, data, address):
        """Send a datagram; one that the kernel does not take is lost, as on any path."""
        with contextlib.suppress(OSError):
            self._socket.sendto(data, (address, self._port))

    def limit(self, address):
        """The size of the largest datagram that the interface towards an address takes; 0 without a route."""
        with contextlib.closing(self._new()) as one:
            try:
                one.bind((self._address, 0))
                one.connect((address, self._port))
                return one.getsockopt(*_MTU[self._version]) - _HEADERS[self._version]
            except OSError:
                return 0

    def close(self):
        """Close the socket."""
        asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()

    def _new(self):
        family = socket.AF_INET if self._version == 4 else socket.AF_INET6
        one = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        # The mesh searches for the path MTU itself.
        one.setsockopt(*PROBE_PATH_MTU[self._version])
        return one

    def _read(self):
        for _datagram in range(_BATCH):
            try:
                data, sender = self._socket.recvfrom(_LONGEST)
            except OSError:
                return
            self._received(sender[0], data)
