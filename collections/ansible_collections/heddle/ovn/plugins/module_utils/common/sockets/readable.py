# SPDX-License-Identifier: Apache-2.0
"""Waits for sockets and other descriptors by poll(2), which has no largest descriptor, as select(2) has (1,023)."""

from __future__ import annotations

import math
import select
from collections.abc import Iterable
from typing import Any


def readable(sources: Iterable, seconds: float) -> list[Any]:
    """Return those of `sources` (numbers, or what has `fileno`) that can be read, or have failed or ended.

    It waits for up to `seconds` until there is one.
    """
    poll, by_number = select.poll(), {}
    for source in sources:
        number = source if isinstance(source, int) else source.fileno()
        by_number[number] = source
        poll.register(number, select.POLLIN)
    return [by_number[number] for number, _events in poll.poll(milliseconds(seconds))]


def milliseconds(seconds: float) -> int:
    """Return a time as poll(2) takes it, rounded up: with less than one it would not wait at all."""
    return max(0, math.ceil(1000 * seconds))
