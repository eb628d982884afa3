# SPDX-License-Identifier: Apache-2.0
"""The responder: a background process that answers for a host's workloads and records which packets it received.

It is forked with its sockets open and holds nothing else: no terminal, no pipe, no file. It ends on SIGTERM, or by
itself when its lifetime is over.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import time

from .datagram import SIZE, UNSOLICITED, answer, read_question
from .listening import Listener

_BURST = 64
_MOST_RECEIVED = 200_000


class _Terminated(BaseException):
    """SIGTERM was received."""


def spawn(sockets: dict[socket.socket, Listener], lifetime: float, received_file: str) -> int:
    """Start the process and return its id once it answers. It owns the sockets from then on."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            _run(sockets, lifetime, received_file, writer)
            status = 0
        finally:
            os._exit(status)
    os.close(writer)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(child, 0)
    with os.fdopen(reader, encoding="ascii") as started:
        text = started.read()
    for opened in sockets:
        opened.close()
    if not text:
        raise OSError("the responder did not start")
    return int(text)


def _run(sockets: dict[socket.socket, Listener], lifetime: float, received_file: str, writer: int) -> None:
    """In the first child: start a new session and fork again, so that no parent has to wait for the responder."""
    os.setsid()
    if os.fork():
        return
    os.chdir("/")
    _keep_only({opened.fileno() for opened in sockets} | {writer})
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGCHLD, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL if number == signal.SIGCHLD else signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _terminate)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    received: set[tuple[str, str, str, str]] = set()
    # The parent may stop this process as soon as it reads the id, so everything is ready before it is written.
    try:
        os.write(writer, str(os.getpid()).encode())
        os.close(writer)
        serve(sockets, time.monotonic() + lifetime, received)
    except _Terminated:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with open(received_file, "w", encoding="utf-8") as file:
        json.dump(sorted(received), file)


def _terminate(_number, _frame) -> None:
    raise _Terminated


def _keep_only(kept: set[int]) -> None:
    """Close all other descriptors; redirect 0 to 2 to /dev/null."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nowhere, number)
    for number in map(int, os.listdir("/proc/self/fd")):
        if number > 2 and number not in kept:
            with contextlib.suppress(OSError):
                os.close(number)


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
