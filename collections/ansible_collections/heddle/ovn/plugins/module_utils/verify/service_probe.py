# SPDX-License-Identifier: Apache-2.0
"""Ask services from workloads, as a client would: a TCP connection, or a DNS question where the port is 53."""

from __future__ import annotations

import contextlib
import secrets
import select
import selectors
import socket
import struct
import time
from dataclasses import dataclass

from .crossing import Crossing
from .listening import Place, allow_descriptors, open_socket, present_namespaces
from .prober import INTERVAL

DNS_PORT = 53
# Seconds before the next attempt after a refusal, and after silence: a server whose queue is full drops what comes.
_PAUSE, _PATIENCE = 0.02, 1.0
# A name that nobody has; servers answer that, too.
_NAME = "verify.heddle.invalid"
_ANY, _INTERNET, _RECURSE = 1, 1, 0x0100


@dataclass(slots=True)
class _Call:
    crossing: Crossing
    began: float
    token: int
    opened: socket.socket | None = None
    tried: float = 0.0
    milliseconds: float | None = None


class ServiceProbe:
    """Calls that are made at once and whose answers are collected later."""

    def __init__(self, crossings: list[Crossing], places: dict[str, Place]) -> None:
        self.places = places
        self.calls: list[_Call] = []
        self.problems: list[str] = []
        allow_descriptors(len(crossings))
        present = present_namespaces(place.namespace for place in places.values())
        for one in crossings:
            place = places[one.source]
            if place.namespace not in present:
                self.problems.append(f"{one.source}: there is no network namespace {place.namespace}")
                continue
            call = _Call(one, time.monotonic(), secrets.randbelow(1 << 16))
            self._open(call)
            self.calls.append(call)

    def collect(self, timeout: float) -> list[dict]:
        """Wait until all that must answer have, `timeout` seconds at most; return what was seen of each."""
        deadline = time.monotonic() + timeout
        with selectors.DefaultSelector() as selector:
            for call in self.calls:
                selector.register(call.opened, _event(call), call)
            while True:
                for key, _events in selector.select(INTERVAL if self._missing() else 0):
                    call = key.data
                    if _answered(call):
                        call.milliseconds = round((time.monotonic() - call.began) * 1000, 2)
                        selector.unregister(call.opened)
                        call.opened.close()
                    else:
                        # Refused: nobody listens, or the network rejects it.
                        self._anew(selector, call)
                        time.sleep(_PAUSE)
                if not self._missing() or time.monotonic() > deadline:
                    break
                for call in self.calls:
                    if call.milliseconds is None and time.monotonic() - call.tried > _PATIENCE:
                        self._anew(selector, call)
        for call in self.calls:
            call.opened.close()
        return [_seen(call) for call in self.calls]

    def _missing(self) -> bool:
        return any(call.crossing.reach and call.milliseconds is None for call in self.calls)

    def _anew(self, selector: selectors.BaseSelector, call: _Call) -> None:
        """Try again from another port, as resolvers do."""
        selector.unregister(call.opened)
        call.opened.close()
        self._open(call)
        selector.register(call.opened, _event(call), call)

    def _open(self, call: _Call) -> None:
        one = call.crossing
        kind = socket.SOCK_STREAM if one.protocol == "TCP" else socket.SOCK_DGRAM
        call.opened, call.tried = open_socket(self.places[one.source], one.family, kind), time.monotonic()
        with contextlib.suppress(OSError):
            call.opened.connect((one.address, one.port))
            if one.protocol != "TCP":
                call.opened.send(dns_question(call.token))


def _event(call: _Call) -> int:
    return selectors.EVENT_WRITE if call.crossing.protocol == "TCP" else selectors.EVENT_READ


def _answered(call: _Call) -> bool:
    if call.crossing.protocol == "TCP":
        connected = not call.opened.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        return connected and _is_connected(call.opened)
    try:
        data = call.opened.recv(512)
    except OSError:
        return False
    return data[:2] == struct.pack("!H", call.token) or call.crossing.port != DNS_PORT


def _is_connected(opened: socket.socket) -> bool:
    try:
        opened.getpeername()
    except OSError:
        return False
    return bool(select.select([], [opened], [], 0)[1])


def dns_question(token: int) -> bytes:
    """Return a question for an address of a name (RFC 1035, section 4.1)."""
    labels = b"".join(bytes([len(part)]) + part.encode() for part in _NAME.split(".")) + b"\0"
    return struct.pack("!HHHHHH", token, _RECURSE, 1, 0, 0, 0) + labels + struct.pack("!HH", _ANY, _INTERNET)


def _seen(call: _Call) -> dict:
    one, answered = call.crossing, call.milliseconds is not None
    return {
        "source": one.source,
        "target": one.target,
        "network": one.network,
        "family": one.family,
        "address": one.address,
        "answered_by": one.target if answered else None,
        "answered_on": one.network if answered else None,
        "milliseconds": call.milliseconds,
    }
