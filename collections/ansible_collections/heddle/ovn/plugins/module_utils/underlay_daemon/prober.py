# SPDX-License-Identifier: Apache-2.0
"""Answers the probes of other hosts, and searches for the largest ones that reach them."""

from __future__ import annotations

import contextlib
import errno
import select
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address

from ..common.sockets.path_mtu_discovery import PROBE_PATH_MTU
from ..types.encapsulation import OVERLAYS
from ..underlay.packet import ACK, ACKNOWLEDGEMENT, CONTROL, PROBE, Probe, datagram
from ..underlay.search import Search
from .receivers import Receiver, receivers

# Seconds in which a command is noticed at the latest.
LOOK_SECONDS = 0.1
_LARGEST_PACKET = 65535
# In the number of a probe of another encapsulation that goes after a round of which nothing has arrived yet.
_WITNESS = 1 << 31
Path = tuple[str, str, str]


@dataclass(frozen=True)
class Task:
    """What a host has to probe: `peers` are the tunnel addresses of all hosts by name, `node` is its own name.

    `token` has 16 bytes and is the same on all hosts, `interface` is the NIC of the underlay, `ceiling` the largest
    packet that is tried, in bytes, None where that is unknown. Only `kinds` of encapsulation are probed. Without
    `may_bind` nothing is received before Open vSwitch has a tunnel port, which needs the UDP port for itself.
    """

    node: str
    token: bytes
    peers: dict[str, list[str]]
    interface: str
    ceiling: int | None
    kinds: tuple[str, ...] = tuple(OVERLAYS)
    may_bind: bool = True


class Prober:
    """Receives from the beginning; searches are begun by `search`."""

    def __init__(self, task: Task, clock: Callable[[], float] = time.monotonic) -> None:
        self.received: dict[str, dict[str, int]] = {}
        self.problems: dict[str, str] = {}
        self._task, self._clock = task, clock
        self._names = {str(ip_address(address)): name for name, all_of in task.peers.items() for address in all_of}
        self._own = [str(ip_address(address)) for address in task.peers[task.node]]
        self._receivers: list[Receiver] = []
        for kind in task.kinds:
            found, problem = receivers(self._own, OVERLAYS[kind], task.interface, may_bind=task.may_bind)
            self._receivers += found
            if problem:
                self.problems[kind] = problem
        self._senders = {address: _sender(address) for address in self._own}
        self._searches: dict[Path, Search] = {}

    def close(self) -> None:
        """Close all sockets."""
        for one in (*self._receivers, *self._senders.values()):
            one.close()

    def search(self) -> None:
        """Begin to search on all paths to other hosts."""
        now, ceiling = self._clock(), self._task.ceiling or _LARGEST_PACKET
        for name, addresses in self._task.peers.items():
            for target in map(str, map(ip_address, addresses)) if name != self._task.node else ():
                for source in self._own:
                    if (":" in source) == (":" in target):
                        for kind in self._task.kinds:
                            self._searches[source, target, kind] = Search(ceiling, now)

    @property
    def is_finished(self) -> bool:
        """Return whether all searches have ended."""
        return all(search.is_finished for search in self._searches.values())

    def sent(self) -> dict[str, dict[str, int]]:
        """Return by host and encapsulation the largest IP packet, in bytes, that arrived on each of its paths."""
        found: dict[str, dict[str, int]] = {}
        for (_source, target, kind), search in self._searches.items():
            sizes = found.setdefault(self._names[target], {})
            sizes[kind] = min(search.largest, sizes.get(kind, search.largest))
        return found

    def step(self) -> None:
        """Handle what has arrived, and send what is due; wait for at most `LOOK_SECONDS`."""
        running = [search.next for search in self._searches.values() if not search.is_finished]
        wait = max(0.0, min([LOOK_SECONDS, *(due - self._clock() for due in running)]))
        readable = select.select(self._receivers, [], [], wait)[0]
        for receiver in readable:
            for probe in receiver.probes():
                if probe.token == self._task.token:
                    self._handle(probe)
        for path, search in self._searches.items():
            for size, number in search.due(self._clock()):
                self._send(path, search, size, number)
                if not search.largest and size == CONTROL:
                    self._send_witnesses(path, number)

    def _acknowledged(self, probe: Probe) -> None:
        for kind in self._task.kinds:
            search = self._searches.get((probe.source, probe.target, kind))
            if search and kind == probe.encapsulation and not probe.number & _WITNESS:
                search.acknowledged(probe.size, probe.number, self._clock())
            elif search and kind != probe.encapsulation and probe.number & _WITNESS:
                search.witnessed(probe.number & ~_WITNESS)

    def _send_witnesses(self, path: Path, number: int) -> None:
        source, target, kind = path
        for other in self._task.kinds:
            if other != kind:
                probe = Probe(self._task.token, PROBE, other, CONTROL, _WITNESS | number, source, target)
                with contextlib.suppress(OSError):
                    payload = datagram(probe, OVERLAYS[other], CONTROL)
                    self._senders[source].sendto(payload, (target, OVERLAYS[other].udp_port))

    def _handle(self, probe: Probe) -> None:
        if probe.kind == ACK:
            self._acknowledged(probe)
            return
        name = self._names.get(probe.source)
        if name is None or probe.target not in self._senders:
            return
        sizes = self.received.setdefault(name, {})
        sizes[probe.encapsulation] = max(probe.size, sizes.get(probe.encapsulation, 0))
        answer = Probe(
            probe.token, ACK, probe.encapsulation, probe.size, probe.number, probe.source, probe.target
        )  # fmt: skip
        # By all: one of them may not get through in this direction.
        for overlay in (OVERLAYS[kind] for kind in self._task.kinds):
            with contextlib.suppress(OSError):
                payload = datagram(answer, overlay, ACKNOWLEDGEMENT)
                self._senders[probe.target].sendto(payload, (probe.source, overlay.udp_port))

    def _send(self, path: Path, search: Search, size: int, number: int) -> None:
        source, target, kind = path
        probe = Probe(self._task.token, PROBE, kind, size, number, source, target)
        try:
            payload = datagram(probe, OVERLAYS[kind], size)
            self._senders[source].sendto(payload, (target, OVERLAYS[kind].udp_port))
        except OSError as error:
            # Another error, such as a missing route, is a loss.
            if error.errno == errno.EMSGSIZE:
                search.too_large(size, self._clock())


def _sender(address: str) -> socket.socket:
    version = ip_address(address).version
    end = socket.socket(socket.AF_INET if version == 4 else socket.AF_INET6, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    end.setsockopt(*PROBE_PATH_MTU[version])
    end.bind((address, 0))
    return end
