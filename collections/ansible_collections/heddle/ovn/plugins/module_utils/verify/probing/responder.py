# SPDX-License-Identifier: Apache-2.0
"""The responder: a background process that answers for a host's workloads and records which packets it received.

It is forked with its sockets open and holds nothing else: no terminal, no pipe, no file. It ends on SIGTERM, or by
itself when its lifetime is over.
"""

from __future__ import annotations

import contextlib
import json
import selectors
import signal
import socket
import struct
import time
from functools import partial

from ...common.processes import background_process
from .datagram import SIZE, UNSOLICITED, answer, read_question
from .listening import MOST_CONNECTIONS, Listener

_BURST = 64
_MOST_RECEIVED = 200_000
# It runs before the daemons of Open vSwitch and OVN, whose nice value is -10, because the network is measured and not
# this process: on a host limited to a tenth of a processor they kept it from running for more than a minute.
_NICE = -15
# When the kernel received a datagram, as a struct timespec (socket(7), SO_TIMESTAMPNS). Python names it from 3.13 on.
_TIMESTAMP, _TIMESPEC = 35, struct.Struct("@ll")


class Received:
    """What arrived, by (source, workload, network, address), with the shortest time in seconds until it was answered.

    That time is of the latest run of the prober only: where each answer was late, a missing one proves nothing.
    """

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, str, str], tuple[str, float]] = {}

    def note(self, source: str, listener: Listener, run: str, seconds: float) -> None:
        """A question of a run of the prober is answered so long after it arrived."""
        key = (source, listener.workload, listener.network, listener.address)
        before = self._found.get(key)
        if before is not None or len(self._found) < _MOST_RECEIVED:
            same = before is not None and before[0] == run
            self._found[key] = (run, min(before[1], seconds) if same else seconds)

    def rows(self) -> list[list]:
        """Return source, workload, network, address and seconds of each."""
        return [[*key, round(seconds, 3)] for key, (_run, seconds) in sorted(self._found.items())]


class _Terminated(BaseException):
    """SIGTERM was received."""


def spawn(sockets: dict[socket.socket, Listener], lifetime: float, received_file: str) -> int:
    """Start the process and return its id once it answers; OSError if it does not. It owns the sockets from then on."""
    received = Received()

    def work() -> None:
        with contextlib.suppress(OSError):
            background_process.prioritise(_NICE)
        with contextlib.suppress(_Terminated):
            serve(sockets, time.monotonic() + lifetime, received)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        with open(received_file, "w", encoding="utf-8") as file:
            json.dump(received.rows(), file)

    try:
        return background_process.spawn(work, _terminate, {opened.fileno() for opened in sockets})
    finally:
        for opened in sockets:
            opened.close()


def _terminate(_number, _frame) -> None:
    raise _Terminated


def serve(sockets: dict[socket.socket, Listener], deadline: float, received: Received) -> None:
    """Answer questions until the deadline (of the monotonic clock).

    Each packet that arrives is added to `received`: one that arrives where it must not is a leak even if its answer is
    lost.
    """
    with selectors.DefaultSelector() as selector, contextlib.ExitStack() as stack:
        connections = _Connections(selector, received)
        for opened, listener in sockets.items():
            # Connections inherit it.
            opened.setsockopt(socket.SOL_SOCKET, _TIMESTAMP, 1)
            if listener.protocol == "TCP":
                work = partial(connections.accept, opened, listener)
            else:
                unsolicited = stack.enter_context(_another(opened)) if listener.unsolicited else None
                work = partial(_answer, opened, listener, unsolicited, received)
            selector.register(opened, selectors.EVENT_READ, work)
        while (left := deadline - time.monotonic()) > 0:
            for key, _events in selector.select(left):
                key.data()


class _Connections:
    """TCP connections, each with one question: it is answered, and the connection is closed."""

    def __init__(self, selector: selectors.BaseSelector, received: Received) -> None:
        self._selector, self._received = selector, received
        self._open: dict[socket.socket, None] = {}

    def accept(self, listening: socket.socket, listener: Listener) -> None:
        """Accept what waits; beyond the most connections the oldest one is closed."""
        for _number in range(_BURST):
            try:
                opened, sender = listening.accept()
            except OSError:
                return
            opened.setblocking(False)
            if len(self._open) >= MOST_CONNECTIONS:
                self._close(next(iter(self._open)))
            self._open[opened] = None
            self._selector.register(opened, selectors.EVENT_READ, partial(self._answer, opened, listener, sender[0]))

    def _answer(self, opened: socket.socket, listener: Listener, sender: str) -> None:
        # One that was closed meanwhile had its event already.
        if opened not in self._open:
            return
        with contextlib.suppress(OSError):
            data, ancillary, *_more = opened.recvmsg(SIZE, socket.CMSG_SPACE(_TIMESPEC.size))
            if (asked := read_question(data)) is not None:
                self._received.note(
                    asked["source"], listener, asked["ask"].partition("/")[0], _seconds_since(ancillary)
                )
                opened.send(answer(asked["ask"], listener.workload, listener.network, sender))
        self._close(opened)

    def _close(self, opened: socket.socket) -> None:
        self._selector.unregister(opened)
        del self._open[opened]
        opened.close()


def _another(opened: socket.socket) -> socket.socket:
    """Return a socket of the same address with another port."""
    another = socket.socket(opened.family, socket.SOCK_DGRAM)
    another.bind((opened.getsockname()[0], 0))
    another.setblocking(False)
    return another


def _answer(opened: socket.socket, listener: Listener, unsolicited: socket.socket | None, received: Received) -> None:
    for _number in range(_BURST):
        try:
            data, ancillary, _flags, sender = opened.recvmsg(SIZE, socket.CMSG_SPACE(_TIMESPEC.size))
        except OSError:
            # Nothing left, or an ICMP error about an earlier answer.
            return
        asked = read_question(data)
        if asked is None:
            continue
        # Before the answer: who has it may end this process, which then has it on record.
        received.note(asked["source"], listener, asked["ask"].partition("/")[0], _seconds_since(ancillary))
        with contextlib.suppress(OSError):
            opened.sendto(answer(asked["ask"], listener.workload, listener.network, sender[0]), sender)
        if unsolicited is not None:
            with contextlib.suppress(OSError):
                unsolicited.sendto(answer(asked["ask"], UNSOLICITED, listener.network), sender)


def _seconds_since(ancillary: list[tuple[int, int, bytes]]) -> float:
    """Return the seconds since a datagram was received, by its ancillary data; 0 where it has no time."""
    for level, kind, value in ancillary:
        if (level, kind, len(value)) == (socket.SOL_SOCKET, _TIMESTAMP, _TIMESPEC.size):
            seconds, nanoseconds = _TIMESPEC.unpack(value)
            return max(0.0, time.time() - seconds - nanoseconds / 1e9)
    return 0.0
