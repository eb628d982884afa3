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
import time

from ...common import background_process
from .datagram import SIZE, UNSOLICITED, answer, read_question
from .listening import Listener

_BURST = 64
_MOST_RECEIVED = 200_000


class _Terminated(BaseException):
    """SIGTERM was received."""


def spawn(sockets: dict[socket.socket, Listener], lifetime: float, received_file: str) -> int:
    """Start the process and return its id once it answers; OSError if it does not. It owns the sockets from then on."""
    received: set[tuple[str, str, str, str]] = set()

    def work() -> None:
        with contextlib.suppress(_Terminated):
            serve(sockets, time.monotonic() + lifetime, received)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        with open(received_file, "w", encoding="utf-8") as file:
            json.dump(sorted(received), file)

    try:
        return background_process.spawn(work, _terminate, {opened.fileno() for opened in sockets})
    finally:
        for opened in sockets:
            opened.close()


def _terminate(_number, _frame) -> None:
    raise _Terminated


def serve(sockets: dict[socket.socket, Listener], deadline: float, received: set) -> None:
    """Answer questions until the deadline (of the monotonic clock).

    Each packet that arrives is added to `received`, as (source, target, network, address): a packet that arrives
    where it must not is a leak even if its answer is lost.
    """
    with selectors.DefaultSelector() as selector, contextlib.ExitStack() as stack:
        for opened, listener in sockets.items():
            unsolicited = stack.enter_context(_another(opened)) if listener.unsolicited else None
            selector.register(opened, selectors.EVENT_READ, (listener, unsolicited))
        while (left := deadline - time.monotonic()) > 0:
            for key, _events in selector.select(left):
                _answer(key.fileobj, *key.data, received)


def _another(opened: socket.socket) -> socket.socket:
    """Return a socket of the same address with another port."""
    another = socket.socket(opened.family, socket.SOCK_DGRAM)
    another.bind((opened.getsockname()[0], 0))
    another.setblocking(False)
    return another


def _answer(opened: socket.socket, listener: Listener, unsolicited: socket.socket | None, received: set) -> None:
    for _number in range(_BURST):
        try:
            data, sender = opened.recvfrom(SIZE)
        except OSError:
            # Nothing left, or an ICMP error about an earlier answer.
            return
        asked = read_question(data)
        if asked is None:
            continue
        if len(received) < _MOST_RECEIVED:
            received.add((asked["source"], listener.workload, listener.network, listener.address))
        with contextlib.suppress(OSError):
            opened.sendto(answer(asked["ask"], listener.workload, listener.network, sender[0]), sender)
        if unsolicited is not None:
            with contextlib.suppress(OSError):
                unsolicited.sendto(answer(asked["ask"], UNSOLICITED, listener.network), sender)
