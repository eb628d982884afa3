# SPDX-License-Identifier: Apache-2.0
"""The process that sends and answers for the workloads that are on this host at the time, and records the results.

A workload is here while its network namespace exists. When that is removed or replaced, its sockets are closed at
once: they would keep the old one alive.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import time
from dataclasses import asdict, dataclass

from ..common.files.atomic_file import replace_file
from ..netlink import kernel
from .answering import Answering
from .flows import Answerer, Flow
from .senders import open_sender
from .tally import bucket

_NAMESPACES = "/var/run/netns"
# Seconds for the other hosts to start answering.
HEAD_START = 3.0
# Seconds between two checks of the namespaces, between two evaluations of losses, between two writes.
WATCH, EXPIRE, WRITE = 0.1, 0.5, 5.0
# A host that is so many seconds late was too busy, which the other hosts may count as loss.
_PAUSE = 0.1


@dataclass(frozen=True)
class Task:
    """The task of a host's process: flows and answers of its workloads. `sources` has namespaces by workload."""

    flows: list[Flow]
    answerers: list[Answerer]
    sources: dict[str, str | None]
    port: int


class Traffic:
    """The state of the process. `file` receives the figures."""

    def __init__(self, task: Task, file: str) -> None:
        self.task, self.file = task, file
        self.stop_requested = False
        self.selector: selectors.BaseSelector | None = None
        self.here: dict[str, int] = {}
        self.senders: dict[Flow, object] = {}
        self.due: dict[Flow, float] = {}
        self.answering: dict[Answerer, Answering] = {}
        self.segments: list[dict] = []
        self.presence: list[list] = []
        self.pauses: dict[int, float] = {}
        self.problems: set[str] = set()
        self.began = time.time()
        self._shift = self.began - time.monotonic()

    def now(self) -> float:
        """Seconds since the epoch, from a clock that is not set back meanwhile."""
        return time.monotonic() + self._shift

    def end(self, *_signal) -> None:
        """Make `run` return soon; a signal handler."""
        self.stop_requested = True

    def run(self, lifetime: float) -> None:
        """Run until the lifetime is over or `end` is called."""
        # Created only here: the daemon closes inherited descriptors.
        self.selector = selectors.DefaultSelector()
        until = self.began + lifetime
        watch = expire = write = 0.0
        while not self.stop_requested and (now := self.now()) < until:
            if now >= watch:
                self._look()
                watch = now + WATCH
            if now >= expire:
                self._expire(now)
                expire = now + EXPIRE
            if now >= write:
                self.write()
                write = now + WRITE
            self._send(now)
            self._select(min([watch, *self.due.values()]))
        self._expire(self.now())
        for flow in [*self.senders]:
            self._stop_sending(flow)
        self.write(complete=True)

    def _send(self, now: float) -> None:
        latest = 0.0
        for flow, due in self.due.items():
            if due <= now:
                latest = max(latest, now - due)
                self.senders[flow].send(now)
                step = flow.interval / 1000
                # All flows send at the same moments, so that this process wakes up less often.
                self.due[flow] = (now // step + 1) * step
        if latest > _PAUSE:
            self.pauses[bucket(now)] = round(latest, 3)

    def _select(self, until: float) -> None:
        for key, _events in self.selector.select(max(0.0, until - self.now())):
            # It may have been closed by an earlier event of this round.
            if key.fileobj.fileno() != -1:
                key.data.ready(key.fileobj, self.now())

    def _watch(self, owner, opened, writable: bool | None) -> None:
        """Register, change or remove a socket in the selector."""
        if writable is None:
            with contextlib.suppress(KeyError):
                self.selector.unregister(opened)
            return
        events = selectors.EVENT_WRITE if writable else selectors.EVENT_READ
        try:
            self.selector.register(opened, events, owner)
        except KeyError:
            self.selector.modify(opened, events, owner)

    def _look(self) -> None:
        """Open senders and responders of new namespaces, close those of removed ones."""
        for namespace in {place for place in self.task.sources.values() if place}:
            inode = _inode(namespace)
            if inode != self.here.get(namespace):
                self._gone(namespace)
                if inode:
                    self.here[namespace] = inode
        for answerer in self.task.answerers:
            if answerer not in self.answering and self._is_here(answerer.namespace):
                self._open_answering(answerer)
        for number, flow in enumerate(self.task.flows):
            namespace = self.task.sources[flow.source]
            if flow not in self.senders and self._is_here(namespace):
                with contextlib.suppress(OSError, kernel.NetlinkFailure):
                    self.senders[flow] = open_sender(flow, self.task.port, number + 1, namespace, self._watch)
                    self.due[flow] = max(self.now(), self.began + HEAD_START)

    def _is_here(self, namespace: str | None) -> bool:
        return namespace is None or namespace in self.here

    def _open_answering(self, answerer: Answerer) -> None:
        try:
            self.answering[answerer] = Answering(answerer, self.task.port, self._watch)
            self.presence.append([answerer.owner, answerer.address, round(self.now(), 3), None])
        except (OSError, kernel.NetlinkFailure) as error:
            if answerer.namespace is None:
                self.problems.add(f"{answerer.owner}: {answerer.address} port {self.task.port}: {error}")

    def _gone(self, namespace: str) -> None:
        self.here.pop(namespace, None)
        for answerer in [one for one in self.answering if one.namespace == namespace]:
            self.answering.pop(answerer).close()
            for entry in self.presence:
                if entry[:2] == [answerer.owner, answerer.address] and entry[3] is None:
                    entry[3] = round(self.now(), 3)
        for flow in [one for one in self.senders if self.task.sources[one.source] == namespace]:
            self._stop_sending(flow)

    def _stop_sending(self, flow: Flow) -> None:
        sender = self.senders.pop(flow)
        del self.due[flow]
        sender.close()
        self.segments.append(_segment(flow, sender))

    def _expire(self, now: float) -> None:
        for sender in self.senders.values():
            sender.tally.expire(now)

    def write(self, *, complete: bool = False) -> None:
        """Write the current figures to the file."""
        used = os.times()
        figures = {
            "began": round(self.began, 3),
            "time": round(self.now(), 3),
            "complete": complete,
            "processor_seconds": round(used.user + used.system, 2),
            "segments": self.segments + [_segment(flow, sender) for flow, sender in self.senders.items()],
            "presence": self.presence,
            "pauses": {str(number): seconds for number, seconds in sorted(self.pauses.items())},
            "problems": sorted(self.problems),
        }
        # Not waiting for the disk, which would hold up what is sent every 10 ms.
        replace_file(self.file, json.dumps(figures), durable=False, single_writer=True)


def _segment(flow: Flow, sender) -> dict:
    return {**asdict(flow), "name": flow.name, **sender.as_dict()}


def _inode(namespace: str) -> int:
    try:
        return os.stat(f"{_NAMESPACES}/{namespace}").st_ino
    except OSError:
        return 0
