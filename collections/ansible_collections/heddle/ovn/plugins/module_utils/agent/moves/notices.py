# SPDX-License-Identifier: Apache-2.0
"""Sends and receives the notices of a move (`render/egress/move_notices.py`) on the host's uplink.

None of them has to arrive: where one is lost, the host waits for the playbook's next step.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Self

from ...common.databases import VSWITCH_REMOTE
from ...common.errors import EngineError
from ...common.sockets.packet_capture import LONGEST, captured, frames_of
from ...common.sockets.readable import readable
from ...openflow.switch import Switch
from ...ovsdb.protocol.client import OvsdbError
from ...render.common.provider import provider_of
from ...render.egress.move_notices import ETHERTYPE, Notice, expected_notices, notice_frame, read_notice
from ..module_runner import connected


def send_notice(plan: dict, notice: Notice) -> None:
    """Send a notice of this host, if it has a provider network."""
    frame, provider = notice_frame(plan, notice), provider_of(plan["nodes"][notice.node])
    if frame is None:
        return
    with contextlib.suppress(EngineError, OvsdbError), connected(VSWITCH_REMOTE, write=True) as client:
        Switch(client).send(provider.bridge, provider.uplink, [frame])


class NoticeSocket:
    """Receives what other hosts send about one move; usable as a context manager."""

    def __init__(self, plan: dict, node: str, moved: Mapping[str, str]) -> None:
        """Listen from now on; OSError where the host has no such uplink."""
        provider = provider_of(plan["nodes"][node])
        if provider is None:
            raise OSError(f"{node} has no provider network")
        self._expected = expected_notices(plan, moved)
        self._socket = captured(provider.uplink, frames_of(ETHERTYPE))
        self._socket.setblocking(False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._socket.close()

    def fileno(self) -> int:
        """Return the descriptor for `select`."""
        return self._socket.fileno()

    def read(self, timeout: float) -> set[Notice]:
        """Return the notices that have arrived, after at most `timeout` seconds without one."""
        found: set[Notice] = set()
        if not readable([self._socket], timeout):
            return found
        with contextlib.suppress(BlockingIOError):
            while True:
                notice = read_notice(self._socket.recv(LONGEST), self._expected)
                if notice:
                    found.add(notice)
        return found
