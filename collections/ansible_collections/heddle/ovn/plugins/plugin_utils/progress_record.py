# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Progress of a playbook run: plays, tasks, hosts. No output."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from .progress_text import duration, joined, number


@dataclass
class Play:
    """A play: its known tasks, and the started ones, by uuid.

    A task that is not known before it starts (of an included file, a handler, a rescue) is added then, so
    the number of started tasks never exceeds the known ones.
    """

    name: str
    known: set[str] = field(default_factory=set)
    started: set[str] = field(default_factory=set)
    hosts: set[str] = field(default_factory=set)
    seconds: float = 0.0

    def start(self, task: str) -> None:
        """Record the start of a task."""
        self.known.add(task)
        self.started.add(task)


@dataclass
class Record:
    """A run: its plays in order by uuid, the current play, and its current task."""

    clock: object = time.monotonic
    plays: dict[str, Play] = field(default_factory=dict)
    current: Play | None = None
    task: str = ""
    task_uuid: str = ""
    # Hosts that the current task was started on, and those that have finished it.
    asked: set[str] = field(default_factory=set)
    answered: set[str] = field(default_factory=set)
    began: float = 0.0
    _play_began: float = 0.0
    _behind: int = 0

    def __post_init__(self) -> None:
        """Start the clock."""
        self.began = self.clock()

    def plan(self, uuid: str, name: str, tasks: set[str]) -> None:
        """Record a future play, with the uuids of its tasks."""
        self.plays.setdefault(uuid, Play(name, set(tasks)))

    def start_play(self, uuid: str, name: str, tasks: set[str]) -> None:
        """Record the start of a play, or of its next batch of hosts."""
        self.end_play()
        self.plan(uuid, name, tasks)
        self.current = self.plays[uuid]
        self.current.started = set()
        # The name is templated only when the play begins.
        self.current.name = name
        self._play_began = self.clock()

    def end_play(self) -> Play | None:
        """Record the end of the current play, if there is one; return it."""
        ended, self.current = self.current, None
        if ended is not None:
            ended.seconds += self.clock() - self._play_began
            self._behind = max(self._behind, self._position(ended) + len(ended.known))
        self.task, self.task_uuid, self.asked, self.answered = "", "", set(), set()
        return ended

    def start_task(self, uuid: str, name: str) -> None:
        """Record the start of a task on its first host."""
        if self.current is not None:
            self.current.start(uuid)
        if uuid != self.task_uuid:
            self.asked, self.answered = set(), set()
        self.task, self.task_uuid = name, uuid

    def start_host(self, host: str) -> None:
        """Record that a host starts the current task."""
        self.asked.add(host)
        if self.current is not None:
            self.current.hosts.add(host)

    def end_host(self, host: str) -> None:
        """Record that a host has finished the current task."""
        self.answered.add(host)

    def _position(self, play: Play) -> int:
        """Return the number of tasks of the plays before this one."""
        found = 0
        for other in self.plays.values():
            if other is play:
                break
            found += len(other.known)
        return found

    @property
    def total(self) -> int:
        """Number of tasks of all plays, as far as known."""
        return sum(len(play.known) for play in self.plays.values())

    @property
    def done(self) -> int:
        """Number of finished tasks; all tasks of a finished play count, also those that did not run."""
        play = self.current
        if play is None:
            return self._behind
        over = max(len(play.started) - 1, 0)
        self._behind = max(self._behind, self._position(play) + over)
        return min(self._behind, self.total)

    @property
    def waiting(self) -> list[str]:
        """Hosts on which the current task runs."""
        return sorted(self.asked - self.answered)

    def elapsed(self) -> float:
        """Return seconds since the run began."""
        return self.clock() - self.began

    def line(self) -> str:
        """Return the current progress as one line."""
        if self.current is None:
            return f"{duration(self.elapsed())}"
        parts = [duration(self.elapsed()), self.current.name]
        if self.task:
            where = joined(self.waiting)
            parts += [
                number(len(self.current.hosts), "host"),
                f"task {self.done + 1} of {self.total}",
                f"{self.task} ({where})" if where else self.task,
            ]
        return "  ".join(parts)

    def state(self) -> dict:
        """Return the current progress as plain data, for another program."""
        return {
            "play": self.current.name if self.current else "",
            "hosts": len(self.current.hosts) if self.current else 0,
            "done": self.done,
            "of": self.total,
            "task": self.task,
            "on": self.waiting,
        }
