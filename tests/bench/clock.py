# SPDX-License-Identifier: Apache-2.0
"""A stopwatch for calls, each started from a clean heap: the best of several is what a quiet machine would show."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable


class Clock:
    """Collects seconds by label."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {}

    def measure(self, label: str, function: Callable, *arguments, **options):
        """Call a function, note how long it took, return its result."""
        gc.collect()
        # The engine pauses the collector by itself; the yardstick must not be slower for want of that.
        gc.disable()
        try:
            start = time.perf_counter()
            result = function(*arguments, **options)
            self.seconds.setdefault(label, []).append(time.perf_counter() - start)
        finally:
            gc.enable()
        return result

    def best(self) -> dict[str, float]:
        """The shortest time of each label."""
        return {label: min(times) for label, times in self.seconds.items()}
