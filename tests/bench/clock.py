# SPDX-License-Identifier: Apache-2.0
"""A stopwatch for calls, each started from a clean heap: the best of several is what a quiet machine would show.

On a machine that others use, processor time says more: that of this process and of the servers that work for it.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from pathlib import Path


class Clock:
    """Collects seconds by label."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {}
        self.processor: dict[str, list[float]] = {}
        self._processes: tuple[int, ...] = ()

    def watch(self, *processes: int) -> None:
        """Count the processor time of these processes, too; nothing else may use them meanwhile."""
        self._processes = processes

    def measure(self, label: str, function: Callable, *arguments, **options):
        """Call a function, note how long it took, return its result."""
        gc.collect()
        # The engine pauses the collector by itself; the yardstick must not be slower for want of that.
        gc.disable()
        try:
            used, start = self._used(), time.perf_counter()
            result = function(*arguments, **options)
            self.seconds.setdefault(label, []).append(time.perf_counter() - start)
            self.processor.setdefault(label, []).append(self._used() - used)
        finally:
            gc.enable()
        return result

    def best(self) -> dict[str, float]:
        """The shortest time of each label."""
        return {label: min(times) for label, times in self.seconds.items()}

    def least_processor(self) -> dict[str, float]:
        """The least processor seconds of each label, this process and those that are watched together."""
        return {label: min(times) for label, times in self.processor.items()}

    def _used(self) -> float:
        return time.process_time() + sum(map(processor_time, self._processes))


def processor_time(process: int) -> float:
    """Return the processor seconds of a process, all its threads together, to the nanosecond.

    From the kernel's Documentation/scheduler/sched-stats.rst, /proc/<pid>/schedstat; stat has hundredths only.
    """
    files = Path(f"/proc/{process}/task").glob("*/schedstat")
    return sum(int(file.read_text(encoding="ascii").split()[0]) for file in files) / 1e9
