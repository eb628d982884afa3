# SPDX-License-Identifier: Apache-2.0
"""When the heartbeats of a connection are sent: one over each overlay at a time, all with the number of the round.

Heartbeats and their acknowledgements cost processor time at both ends. At a rate that a slow host cannot keep up with
they would take all of it, and wait in queues for longer and longer. So late acknowledgements make the rate lower.
"""

from __future__ import annotations

from .heartbeat import NUMBERS

# A round begins after this many times as long as the acknowledgement of the last one took, at the latest after so many
# seconds. Without an acknowledgement that of earlier rounds counts, whose influence decreases with each round.
_PACE, _LONGEST_INTERVAL_SECONDS, _DECREASE = 3, 2, 7 / 8
# Seconds until the next round after one of which nothing is acknowledged, at least.
_UNACKNOWLEDGED_SECONDS = 0.6
# Rounds whose acknowledgement is still waited for.
_OUTSTANDING = 64


class Rounds:
    """The rounds of one connection. `now` is any clock that does not jump."""

    def __init__(self):
        self._latest, self._latest_at = 0, None
        # When the rounds began of which no heartbeat is acknowledged yet, {number: seconds}.
        self._begun = {}
        # The seconds until the first acknowledgement, of the latest round and of the slowest one.
        self._took, self._slowest = None, 0.0

    def due(self, now, interval):
        """Begin a round that is due, `interval` seconds after the last one or later, and return its number; or None."""
        if self._latest_at is not None and now < self._latest_at + self._interval(interval):
            return None
        self._latest, self._latest_at, self._took = (self._latest + 1) % NUMBERS, now, None
        self._begun[self._latest] = now
        if len(self._begun) > _OUTSTANDING:
            del self._begun[next(iter(self._begun))]
        return self._latest

    def acknowledged(self, number, now):
        """The peer has received a heartbeat of a round."""
        begun = self._begun.pop(number, None)
        if begun is None:
            return
        self._slowest = max(now - begun, _DECREASE * self._slowest)
        if number == self._latest:
            self._took = now - begun

    def _interval(self, least):
        if self._took is not None:
            return max(least, min(_PACE * self._took, _LONGEST_INTERVAL_SECONDS))
        return max(least, _UNACKNOWLEDGED_SECONDS, min(_PACE * self._slowest, _LONGEST_INTERVAL_SECONDS))
