# SPDX-License-Identifier: Apache-2.0
"""Responders of the measured flows: an address answers on UDP and TCP, only to the senders' requests."""

from __future__ import annotations

import contextlib
import socket
import struct

from ..common.addressing import family
from ..netlink import kernel
from .flows import Answerer
from .senders import ANSWER, QUESTION

_FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}
_BURST = 64
_BACKLOG = 128
_LENGTH = len(QUESTION) + 8


class Answering:
    """One address that answers. `watch` is as for senders."""

    def __init__(self, wanted: Answerer, port: int, watch) -> None:
        """Open it in its namespace; OSError while the address is not there."""
        self.watch = watch
        self.connections: set[socket.socket] = set()
        address_family = _FAMILIES[family(wanted.address)]
        with contextlib.ExitStack() as stack, kernel.in_netns(wanted.namespace):
            self.datagrams = stack.enter_context(socket.socket(address_family, socket.SOCK_DGRAM))
            self.listener = stack.enter_context(socket.socket(address_family, socket.SOCK_STREAM))
            self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            for opened in (self.datagrams, self.listener):
                opened.bind((wanted.address, port))
                opened.setblocking(False)
            self.listener.listen(_BACKLOG)
            stack.pop_all()
        watch(self, self.datagrams, False)
        watch(self, self.listener, False)

    def ready(self, opened: socket.socket, _now: float) -> None:
        """Answer datagrams, accept connections, echo their data."""
        for _count in range(_BURST):
            try:
                if opened is self.datagrams:
                    _answer(opened)
                elif opened is self.listener:
                    self._accept()
                else:
                    self._send_back(opened)
                    return
            except BlockingIOError:
                return
            except OSError:
                # The sender has closed the connection.
                continue

    def _accept(self) -> None:
        connection, _address = self.listener.accept()
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connections.add(connection)
        self.watch(self, connection, False)

    def _send_back(self, connection: socket.socket) -> None:
        try:
            data = connection.recv(65536)
            if data and connection.send(data) == len(data):
                return
        except BlockingIOError:
            return
        except OSError:
            pass
        self.watch(self, connection, None)
        self.connections.discard(connection)
        connection.close()

    def close(self) -> None:
        """Close the sockets and all accepted connections, and take them out of the event loop."""
        for opened in (self.datagrams, self.listener, *self.connections):
            self.watch(self, opened, None)
            opened.close()
        self.connections.clear()


def _answer(opened: socket.socket) -> None:
    data, sender = opened.recvfrom(2048)
    if len(data) == _LENGTH and data.startswith(QUESTION):
        opened.sendto(ANSWER + data[len(QUESTION) :], sender)
