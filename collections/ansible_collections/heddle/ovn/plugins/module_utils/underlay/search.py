# SPDX-License-Identifier: Apache-2.0
"""The search for the largest packet that a path lets through.

Each round sends one packet of the size in question and a small one after it. When the small one is acknowledged and the
large one is not, the large one was lost: how fast hosts and path are does not matter. Packets are lost for other
reasons too, so a size counts as too large after several such rounds in a row. Of a path that has acknowledged nothing
yet, packets of another encapsulation show the same (`witnessed`); without them it is given up after `PAUSES`.
"""

from __future__ import annotations

from .packet import CONTROL

LOSSES = 5
# Seconds until a round without any acknowledgement is repeated. After the last one nothing gets through.
PAUSES = (0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0)


class Search:
    """`ceiling` is the largest size that is tried, in bytes. `now` is any clock, in seconds."""

    def __init__(self, ceiling: int, now: float) -> None:
        self.largest = 0
        self.is_finished = False
        self._above = max(ceiling, CONTROL) + 1
        self._candidate = self._above - 1
        self._number = self._silent = 0
        # The rounds of this size that the path has lost, and the first one of it.
        self._lost: set[int] = set()
        self._first = 1
        self._missed = self._missed_in = 0
        self._next = now

    @property
    def next(self) -> float:
        """Return when `due` returns something again, unless an acknowledgement arrives before."""
        return self._next

    def due(self, now: float) -> list[tuple[int, int]]:
        """Return the packets that have to be sent now, as (size, number), in their order."""
        if self.is_finished or now < self._next:
            return []
        if self._silent == len(PAUSES):
            self.is_finished = True
            return []
        self._next = now + PAUSES[self._silent]
        self._silent += 1
        self._number += 1
        return [(size, self._number) for size in dict.fromkeys((self._candidate, CONTROL))]

    def too_large(self, size: int, now: float) -> None:
        """The host's own interface does not take packets of this size."""
        if size == self._candidate and size > CONTROL:
            self._above = size
            self._choose(now)

    def acknowledged(self, size: int, number: int, now: float) -> None:
        """A packet has arrived, perhaps one of an earlier round; rounds of another size show no loss of this one."""
        if self.is_finished:
            return
        self._silent = 0
        if size > self.largest:
            self.largest = size
            self._above = max(self._above, size + 1)
        if size >= self._candidate:
            self._choose(now)
        elif size == CONTROL and number >= self._first and number not in self._lost:
            self._lost.add(number)
            if len(self._lost) == LOSSES:
                self._above = self._candidate
                self._choose(now)
            elif number == self._number:
                self._next = now

    def witnessed(self, number: int) -> None:
        """A packet of another encapsulation has arrived, which was sent to the same address after that round.

        So both hosts work and are not cut off. When nothing has arrived of several such rounds, each of them sent after
        the one before was known to be lost, then nothing of this encapsulation gets through.
        """
        if self.is_finished or self.largest or number <= self._missed_in:
            return
        self._missed_in = self._number
        self._missed += 1
        self.is_finished = self._missed == LOSSES

    def _choose(self, now: float) -> None:
        self._silent, self._lost, self._first = 0, set(), self._number + 1
        self._next = now
        if self._above - self.largest <= 1:
            self.is_finished = True
        else:
            self._candidate = max((self.largest + self._above) // 2, min(CONTROL, self._above - 1))
