# SPDX-License-Identifier: Apache-2.0
"""Polling: asking again, less and less often, until a deadline."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterator
from typing import TypeVar

Missing = TypeVar("Missing", bound=Collection)


def attempts(timeout: float, *, shortest: float = 0.01, longest: float = 0.25) -> Iterator[None]:
    """Yield at once, then after pauses that double from `shortest` to `longest`, for `timeout` seconds (monotonic).

    What is asked for is asked at least once, and a last time when the time is over, however long asking takes:

        for _attempt in attempts(timeout):
            if ready():
                return
        raise TimedOut

    All arguments are seconds; `math.inf` has no end.
    """
    deadline = time.monotonic() + timeout
    pause = shortest
    while True:
        yield
        left = deadline - time.monotonic()
        if left <= 0:
            return
        time.sleep(min(pause, left))
        pause = min(2 * pause, longest)


def wait_for_all(missing: Callable[[], Missing], timeout: float) -> Missing:
    """Ask what is `missing` until nothing is, or until nothing of it has appeared for `timeout` seconds; return it.

    So many take as long as they need, and those that never appear are reported soon after the last one that did.
    """
    fewest, since = math.inf, time.monotonic()
    for _attempt in attempts(math.inf):
        left = missing()
        if len(left) < fewest:
            fewest, since = len(left), time.monotonic()
        if not left or time.monotonic() - since >= timeout:
            break
    return left
