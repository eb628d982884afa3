# SPDX-License-Identifier: Apache-2.0
"""The size of the largest datagram that a path lets through (Weave's sleeve; the idea is RFC 8899's, DPLPMTUD).

Probes are datagrams that must not be fragmented; the peer acknowledges them with their size. The largest possible size
is tried first, then the search halves what is left. A size has failed after eight probes with growing pauses.
"""

from __future__ import annotations

# Payload that every path carries, as in Weave; before more is known all is sent in pieces of this size.
FLOOR = 552
_PAUSES = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28)
CHECK_SECONDS, SEARCH_SECONDS = 10, 300
_SEARCH, _FINISHED, _CHECK = "search", "finished", "check"


class PathMtu:
    """`size` is known to pass. After a search it is checked every 10 s, and every 5 minutes whether more passes."""

    def __init__(self, ceiling, now):
        self.size = FLOOR
        self._state = _SEARCH
        self._ceiling = self._above = self._candidate = 0
        self._sent, self._next, self._search_due = 0, now, now
        self.restart(ceiling, now)

    @property
    def finished(self):
        """False during a search, when larger datagrams may yet be found to pass."""
        return self._state != _SEARCH

    def restart(self, ceiling, now):
        """The path may have changed: search again from the smallest size, up to `ceiling`."""
        self.size = FLOOR
        self._ceiling = max(ceiling, FLOOR)
        self._search(now)

    def due(self, now):
        """The size of the probe that has to be sent by now, None for none; counts it as sent."""
        if now < self._next:
            return None
        if self._state == _FINISHED:
            self._begin(now)
        elif self._sent == len(_PAUSES):
            self._failed(now)
        if self._state == _FINISHED:
            return None
        self._next = now + _PAUSES[self._sent]
        self._sent += 1
        return self._candidate

    def acknowledged(self, size, now):
        """A probe of this size has arrived; a late one of an earlier size counts too."""
        if self._state == _FINISHED or not self.size <= size <= self._ceiling:
            return
        self.size = size
        self._above = max(self._above, size + 1)
        if size >= self._candidate:
            self._choose(now)

    def _begin(self, now):
        if self.size < self._ceiling and now >= self._search_due:
            self._search(now)
        else:
            self._state = _CHECK
            self._try(self.size, now)

    def _search(self, now):
        self._state = _SEARCH
        self._above = self._ceiling + 1
        self._search_due = now + SEARCH_SECONDS
        self._try(self._ceiling, now)

    def _try(self, size, now):
        self._candidate, self._sent, self._next = size, 0, now

    def _failed(self, now):
        if self._candidate > self.size:
            self._above = self._candidate
            self._choose(now)
        else:
            self.restart(self._ceiling, now)

    def _choose(self, now):
        """Try the middle of what is left, or end the search."""
        if self._state == _CHECK or self._above - self.size <= 1:
            self._state = _FINISHED
            self._next = now + CHECK_SECONDS
        else:
            self._try((self.size + self._above) // 2, now)
