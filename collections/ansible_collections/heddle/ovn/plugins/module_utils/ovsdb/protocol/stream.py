# SPDX-License-Identifier: Apache-2.0
"""A connected socket that never blocks. `tls.py` has the same for TLS, where reading may have to wait for writing."""

from __future__ import annotations

import select
import socket

from ...common.sockets.readable import milliseconds

CHUNK = 1 << 18


class Stream:
    """A unix or TCP connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        connection.setblocking(False)

    def fileno(self) -> int:
        """Return what `select` waits for; TLS may have data besides (`wait`)."""
        return self._socket.fileno()

    def close(self) -> None:
        """End the connection; harmless when repeated."""
        self._socket.close()

    def wait(self, timeout: float, *, write: bool = False) -> tuple[bool, bool]:
        """Wait up to `timeout` seconds; return whether something can be read, and with `write`, whether written."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN | (select.POLLOUT if write else 0))
        events = sum(found for _number, found in poll.poll(milliseconds(timeout)))
        return bool(events & ~select.POLLOUT), write and bool(events & (select.POLLOUT | select.POLLERR))

    def send(self, data: memoryview) -> int:
        """Send a part of `data`; returns how many bytes, 0 when it has to wait. OSError when the connection broke."""
        try:
            return self._socket.send(data)
        except BlockingIOError:
            return 0

    def receive(self) -> bytes | None:
        """Return what is there, b"" at the end of the connection, None when there is nothing. OSError as `send`."""
        try:
            return self._socket.recv(CHUNK)
        except BlockingIOError:
            return None
