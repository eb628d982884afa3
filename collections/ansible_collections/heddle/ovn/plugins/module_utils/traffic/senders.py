# SPDX-License-Identifier: Apache-2.0
"""Senders of the measured flows. Each is opened in the network namespace of its source and stays there.

A sender has `sockets` for the event loop, `send` for when it is due, and `ready` for when one
of its sockets can be read or written. Nothing here blocks or raises once a sender is open.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import struct

from ..netlink import kernel
from .flows import ICMP, LONG, NEW, TO_APPLICATIONS, UDP, Flow
from .tally import PATIENCE, Tally

# The magic bytes of a request; an answer begins with other bytes, so that answers are never answered.
QUESTION, ANSWER = b"heddle?", b"heddle!"
_NUMBER = struct.Struct("!Q")
_FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}
_BURST = 64
# An ICMP echo: type, code, checksum, identifier, sequence number (RFC 792, RFC 4443 section 4).
_ECHO = struct.Struct("!BBHHH")
_ECHO_TYPES = {4: (8, 0), 6: (128, 129)}
# An established connection without an acknowledgement for this many milliseconds is over (tcp(7)).
_USER_TIMEOUT = 30000
_RETRY_SECONDS = 0.5


def open_sender(flow: Flow, port: int, identifier: int, namespace: str | None, watch):
    """Open the sender of a flow in a network namespace; OSError while that has no route there.

    `watch(sender, socket, writable)` is called for each new socket, `watch(sender, socket, None)` before it is closed.
    """
    with kernel.in_netns(namespace):
        if flow.protocol in (UDP, ICMP):
            return Datagrams(flow, port, identifier, watch)
        return {LONG: LongConnection, NEW: NewConnections}[flow.protocol](flow, port, namespace, watch)


class Datagrams:
    """UDP requests to a responder, or ICMP echoes."""

    def __init__(self, flow: Flow, port: int, identifier: int, watch) -> None:
        self.flow, self.tally, self.watch = flow, Tally(), watch
        self.identifier = identifier
        self.echoes = flow.protocol == ICMP
        if self.echoes:
            protocol = socket.IPPROTO_ICMPV6 if flow.family == 6 else socket.IPPROTO_ICMP
            self.socket = socket.socket(_FAMILIES[flow.family], socket.SOCK_RAW, protocol)
        else:
            self.socket = socket.socket(_FAMILIES[flow.family], socket.SOCK_DGRAM)
        _connected(self.socket, (flow.address, 0 if self.echoes else port))
        watch(self, self.socket, False)

    def send(self, now: float) -> None:
        """Send the next packet; a packet that cannot be sent counts as lost."""
        number = self.tally.send(now)
        data = self._echo(number) if self.echoes else QUESTION + _NUMBER.pack(number)
        with contextlib.suppress(OSError):
            self.socket.send(data)

    def _echo(self, number: int) -> bytes:
        kind = _ECHO_TYPES[self.flow.family][0]
        number &= 0xFFFF
        # The kernel computes the checksum of ICMPv6 (RFC 3542, section 3.1), not that of ICMP.
        total = (kind << 8) + self.identifier + number
        checksum = ~(total + (total >> 16)) & 0xFFFF if self.flow.family == 4 else 0
        return _ECHO.pack(kind, 0, checksum, self.identifier, number)

    def ready(self, opened: socket.socket, now: float) -> None:
        """Read answers."""
        for _count in range(_BURST):
            try:
                data = opened.recv(2048)
            except BlockingIOError:
                return
            except OSError:
                # An ICMP error about an earlier packet.
                continue
            number = self._answered(data) if self.echoes else _number(data)
            if number is not None:
                self.tally.answer(number, now)

    def _answered(self, data: bytes) -> int | None:
        if self.flow.family == 4:
            data = data[(data[0] & 15) * 4 :]
        if len(data) < _ECHO.size:
            return None
        kind, _code, _checksum, identifier, low = _ECHO.unpack_from(data)
        if (kind, identifier) != (_ECHO_TYPES[self.flow.family][1], self.identifier):
            return None
        # The number that ends in these 16 bits and was sent last.
        return self.tally.newest - ((self.tally.newest - low) & 0xFFFF)

    def as_dict(self) -> dict:
        """Return the figures."""
        return self.tally.as_dict()

    def close(self) -> None:
        """Close the sockets."""
        self.watch(self, self.socket, None)
        self.socket.close()


class LongConnection:
    """One long TCP connection with echoed lines. It is opened again when it breaks."""

    def __init__(self, flow: Flow, port: int, namespace: str | None, watch) -> None:
        self.flow, self.port, self.namespace = flow, port, namespace
        self.tally, self.watch = Tally(), watch
        self.resets: list[list] = []
        self.connections = 0
        self.established = False
        self.retry_at = self.connected_at = 0.0
        self.received = b""
        self.socket: socket.socket | None = None
        self._open()

    def _open(self) -> None:
        self.socket = _tcp(self.flow, self.port)
        self.established, self.received = False, b""
        self.watch(self, self.socket, True)

    def send(self, now: float) -> None:
        """Send a line, or reconnect."""
        if self.socket is None and now >= self.retry_at:
            try:
                with kernel.in_netns(self.namespace):
                    self._open()
            except OSError:
                self.retry_at = now + _RETRY_SECONDS
        if self.socket is not None and self.established:
            line = _NUMBER.pack(self.tally.send(now))
            try:
                self.socket.send(line)
            except BlockingIOError:
                # A partial write would return as half a line.
                self._broken(now, "nothing is acknowledged")
            except OSError as error:
                self._broken(now, error.strerror)
        elif self.connections:
            # No line can be sent, which counts as loss.
            self.tally.send(now)

    def ready(self, opened: socket.socket, now: float) -> None:
        """Finish connecting, or read what came back."""
        if not self.established:
            error = opened.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if error:
                self._drop(now)
                return
            self.established, self.connected_at = True, now
            self.connections += 1
            self.watch(self, opened, False)
            return
        try:
            data = opened.recv(65536)
        except BlockingIOError:
            return
        except OSError as error:
            self._broken(now, error.strerror)
            return
        if not data:
            self._broken(now, "closed by the other end")
            return
        data = self.received + data
        whole = len(data) // _NUMBER.size * _NUMBER.size
        self.received = data[whole:]
        for (number,) in _NUMBER.iter_unpack(data[:whole]):
            self.tally.answer(number, now)

    def _broken(self, now: float, why: str | None) -> None:
        self.resets.append([round(now, 3), round(self.connected_at, 3), str(why)])
        self._drop(now)

    def _drop(self, now: float) -> None:
        self.watch(self, self.socket, None)
        self.socket.close()
        self.socket, self.retry_at = None, now + _RETRY_SECONDS

    def as_dict(self) -> dict:
        """Return the figures; `resets` has when, since when it had been established, and why."""
        return {**self.tally.as_dict(), "connections": self.connections, "resets": self.resets}

    def close(self) -> None:
        """Close the sockets."""
        if self.socket is not None:
            self.watch(self, self.socket, None)
            self.socket.close()


class NewConnections:
    """A new TCP connection each time, closed once established.

    One to a Service has reached an endpoint also when that refuses it: its application may not be running.
    """

    def __init__(self, flow: Flow, port: int, namespace: str | None, watch) -> None:
        self.flow, self.port, self.namespace = flow, flow.port or port, namespace
        self.tally, self.watch = Tally(), watch
        self.waiting: dict[socket.socket, tuple[int, float]] = {}
        self.answers = (0, errno.ECONNREFUSED) if flow.kind in TO_APPLICATIONS else (0,)
        _tcp(flow, self.port).close()

    def send(self, now: float) -> None:
        """Start a connection, and abort those that have waited long enough."""
        for opened in [one for one, (_number, began) in self.waiting.items() if now - began > PATIENCE]:
            self._end(opened)
        number = self.tally.send(now)
        with contextlib.suppress(OSError), kernel.in_netns(self.namespace):
            opened = _tcp(self.flow, self.port)
            self.waiting[opened] = number, now
            self.watch(self, opened, True)

    def ready(self, opened: socket.socket, now: float) -> None:
        """Check whether a connection was established; otherwise a rejected one counts as lost."""
        if opened.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) in self.answers:
            self.tally.answer(self.waiting[opened][0], now)
        self._end(opened)

    def _end(self, opened: socket.socket) -> None:
        self.watch(self, opened, None)
        del self.waiting[opened]
        opened.close()

    def as_dict(self) -> dict:
        """Return the figures."""
        return self.tally.as_dict()

    def close(self) -> None:
        """Close the sockets."""
        for opened in [*self.waiting]:
            self._end(opened)


def _number(data: bytes) -> int | None:
    if len(data) != len(ANSWER) + _NUMBER.size or not data.startswith(ANSWER):
        return None
    return _NUMBER.unpack_from(data, len(ANSWER))[0]


def _connected(opened: socket.socket, address: tuple[str, int]) -> None:
    """Connect without waiting; OSError, and the socket is closed, when there is no route."""
    opened.setblocking(False)
    try:
        opened.connect(address)
    except BlockingIOError:
        return
    except OSError:
        opened.close()
        raise


def _tcp(flow: Flow, port: int) -> socket.socket:
    opened = socket.socket(_FAMILIES[flow.family], socket.SOCK_STREAM)
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _USER_TIMEOUT)
    # Closing resets, so that thousands of connections leave nothing in TIME_WAIT.
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    _connected(opened, (flow.address, port))
    return opened
