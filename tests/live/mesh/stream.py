# SPDX-License-Identifier: Apache-2.0
"""A TCP stream between two network namespaces, whose bytes are compared, with the moments when they arrived."""

from __future__ import annotations

import contextlib
import select
import socket
import time
from collections.abc import Callable
from itertools import pairwise

from ansible_collections.heddle.ovn.plugins.module_utils.netlink import kernel
from tests.live.conftest import START_TIMEOUT

_PORT = 5201
_PIECE = 8192
_PATTERN = bytes(range(251)) * 100


class Stream:
    """Sends a piece every `pause` seconds, if the kernel takes it. A reset raises ConnectionResetError."""

    pause = 0.005

    def __init__(self, source: str, target: str, address: str) -> None:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with kernel.in_netns(target):
            listener = socket.create_server((address, _PORT), family=family)
        with kernel.in_netns(source):
            self._sender = socket.create_connection((address, _PORT), START_TIMEOUT)
        self._receiver, _peer = listener.accept()
        listener.close()
        for one in (self._sender, self._receiver):
            one.setblocking(False)
        self.sent = self.received = 0
        self.arrivals: list[float] = []

    def run(self, until: Callable[[], bool], what: str, amount: int = 200_000, seconds: float = START_TIMEOUT) -> None:
        """Send until a condition is met, asked every 0.1 s, and then until `amount` more bytes have arrived."""
        deadline, asked, goal = time.monotonic() + seconds, 0.0, None
        while goal is None or self.received < goal:
            self._step()
            now = time.monotonic()
            assert now < deadline, f"{what}: {self.received} of {self.sent} bytes arrived, goal {goal}"
            if goal is None and now - asked > 0.1:
                asked = now
                if until():
                    goal = self.sent + amount

    def longest_gap(self, since: float) -> float:
        """The longest time without an arrival after a moment."""
        moments = [one for one in self.arrivals if one >= since]
        return max((later - earlier for earlier, later in pairwise(moments)), default=0.0)

    def close(self) -> None:
        self._sender.close()
        self._receiver.close()

    def _step(self) -> None:
        start = self.sent % 251
        with contextlib.suppress(BlockingIOError):
            self.sent += self._sender.send(_PATTERN[start : start + _PIECE])
        select.select([self._receiver], [], [], self.pause)
        try:
            data = self._receiver.recv(1 << 20)
        except BlockingIOError:
            return
        assert data, "the stream ended"
        start = self.received % 251
        whole = _PATTERN[start:251] + bytes(range(251)) * (len(data) // 251 + 1)
        assert data == whole[: len(data)], f"other bytes than were sent, after {self.received}"
        self.received += len(data)
        self.arrivals.append(time.monotonic())
