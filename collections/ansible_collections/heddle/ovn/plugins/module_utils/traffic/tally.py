# SPDX-License-Identifier: Apache-2.0
"""Statistics of one flow on one host: counts, gaps, and losses by time. Pure.

Times are seconds since the epoch. A packet is lost when no answer came within `PATIENCE` seconds.
"""

from __future__ import annotations

from collections import Counter, deque

PATIENCE = 2.0
# A slower answer is recorded with its time.
SLOW = 0.3
# The first retransmission of a SYN is sent after a second (RFC 6298, 2.1).
RETRIED = 0.9
# Losses and slow answers are recorded per tenth of a second.
BUCKETS = 10
# Only the longest gaps are kept.
MOST_GAPS = 100


def bucket(time: float) -> int:
    """Return the number of the tenth of a second that contains a time."""
    return int(time * BUCKETS)


class Tally:
    """Numbered packets and their answers."""

    def __init__(self) -> None:
        self.began = self.ended = 0.0
        self.answered = self.lost = self.late = self.retried = 0
        self.slowest = 0.0
        self.losses: Counter[int] = Counter()
        self.slow: dict[int, float] = {}
        self.gaps: list[list[float]] = []
        self._open: deque[list] = deque()
        self._first = 0
        self._last_answered = 0.0
        self._lost_in_gap = 0

    @property
    def newest(self) -> int:
        """The number of the packet sent last."""
        return self._first + len(self._open) - 1

    def send(self, now: float) -> int:
        """Record a packet that is sent, and return its number."""
        if not self.began:
            self.began = self._last_answered = now
        self.ended = now
        self._open.append([now, None])
        return self.newest

    def answer(self, number: int, now: float) -> None:
        """Record the answer to a packet."""
        place = number - self._first
        if place < 0:
            self.late += 1
        elif place < len(self._open) and self._open[place][1] is None:
            self._open[place][1] = now

    def expire(self, now: float) -> None:
        """Evaluate all packets that are answered or have waited long enough, in order."""
        while self._open and (self._open[0][1] is not None or now - self._open[0][0] > PATIENCE):
            sent, answered = self._open.popleft()
            self._first += 1
            if answered is None or answered - sent > PATIENCE:
                self.lost += 1
                self._lost_in_gap += 1
                self.losses[bucket(sent)] += 1
            else:
                self.answered += 1
                self._wait(sent, answered - sent)
                self._close_gap(sent)

    def _wait(self, sent: float, waited: float) -> None:
        self.slowest = max(self.slowest, waited)
        self.retried += waited > RETRIED
        if waited > SLOW:
            self.slow[bucket(sent)] = max(self.slow.get(bucket(sent), 0), round(waited, 3))

    def _close_gap(self, now: float) -> None:
        """A gap reaches from the sending of one answered packet to that of the next answered one."""
        if self._lost_in_gap:
            self.gaps.append([self._last_answered, now, self._lost_in_gap])
            self._lost_in_gap = 0
            if len(self.gaps) > MOST_GAPS:
                self.gaps.remove(min(self.gaps, key=lambda gap: gap[1] - gap[0]))
        self._last_answered = now

    def as_dict(self) -> dict:
        """Return the figures. Packets still in flight are not counted."""
        gaps = [*self.gaps]
        if self._lost_in_gap:
            gaps.append([self._last_answered, self.ended, self._lost_in_gap])
        return {
            "began": round(self.began, 3),
            "ended": round(self.ended, 3),
            "sent": self.answered + self.lost,
            "lost": self.lost,
            "late": self.late,
            "retried": self.retried,
            "slowest": round(self.slowest, 4),
            "gaps": [[round(start, 3), round(end, 3), lost] for start, end, lost in gaps],
            "losses": {str(number): count for number, count in sorted(self.losses.items())},
            "slow": {str(number): waited for number, waited in sorted(self.slow.items())},
        }
