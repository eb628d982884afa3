# SPDX-License-Identifier: Apache-2.0
"""The tasks of the daemon: one for each probe, and one that follows the plan and writes the report."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from collections.abc import Callable

from ..common.files.daemon_report import Report, read_report
from ..common.processes.task_end import end
from ..types.readiness_probe import EXEC, Probe
from .attempt import attempt
from .readiness import Readiness

_LOOK_SECONDS = 0.2
# Connections and commands that are under way at once: more wait for their turn.
_MOST_CONNECTIONS, _MOST_COMMANDS = 256, 4


class Daemon:
    """`wanted` returns the present probes by workload, None when no host has any; `say` takes lines for the log."""

    def __init__(self, wanted: Callable[[], dict[str, Probe] | None], report: str, say: Callable[[str], None]) -> None:
        self._wanted, self._path, self._say = wanted, report, say
        self._file = Report(report, say)
        self._states: dict[str, Readiness] = {}
        self._tasks: dict[str, asyncio.Task] = {}
        # Written between probes: many may end at once.
        self._is_reported = False

    async def run(self) -> None:
        """Run until no host has probes any more; then there is no report either."""
        known = read_report(self._path)
        self._turns = {True: asyncio.Semaphore(_MOST_COMMANDS), False: asyncio.Semaphore(_MOST_CONNECTIONS)}
        try:
            while (wanted := self._wanted()) is not None:
                self._follow(wanted, known)
                known = {}
                if not self._is_reported or not os.path.exists(self._path):
                    self._write()
                await asyncio.sleep(_LOOK_SECONDS)
        finally:
            await end(self._tasks.values())
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)

    def _follow(self, wanted: dict[str, Probe], known: dict[str, dict]) -> None:
        """Begin and end probes; `known` is the report of an earlier run of the daemon."""
        present = {name: state.probe for name, state in self._states.items()}
        if wanted == present:
            return
        for name in [name for name, probe in present.items() if wanted.get(name) != probe]:
            self._tasks.pop(name).cancel()
            del self._states[name]
        for name in [name for name in wanted if name not in self._states]:
            self._states[name] = Readiness.restored(wanted[name], known.get(name, {}))
            self._tasks[name] = asyncio.ensure_future(self._repeat(name, self._states[name]))
        self._is_reported = False

    async def _repeat(self, name: str, state: Readiness) -> None:
        # Restored ones have their first turn within a period, so that not all are probed at once.
        await asyncio.sleep(random.uniform(0, state.probe.period) if state.probed else state.probe.delay)
        while True:
            async with self._turns[state.probe.kind == EXEC]:
                failure = await attempt(state.probe)
            if self._states.get(name) is not state:
                # The cancellation was lost (common/processes/task_end.py).
                return
            was_ready = state.ready
            if state.record(failure):
                self._is_reported = False
            if state.ready != was_ready:
                self._say(f"{name}: ready" if state.ready else f"{name}: not ready: {state.failure}")
            await asyncio.sleep(state.pause)

    def _write(self) -> None:
        report = {name: entry for name, state in sorted(self._states.items()) if (entry := state.report())}
        self._is_reported = self._file.write(report)
