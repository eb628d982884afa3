# SPDX-License-Identifier: Apache-2.0
"""How fast to ask: as fast as the hosts answer, which is not known before.

A switch decides on each new flow in software, and on a small or emulated host not many in a second. Packets that come
faster wait in its queue for minutes, and what does not fit there is lost. So only a few questions are under way at
once: more of them after prompt answers, fewer after late ones. Questions without any answer say nothing about that; a
broken network does not make the rest slower.
"""

from __future__ import annotations

from dataclasses import dataclass

# Questions under way: at first, at least, at most, and at most when some get no answer at all.
_FIRST, _FEWEST, _MOST, _MOST_SILENT = 8, 2, 32, 256
# Seconds within which an answer did not wait in a queue.
_PROMPT = 0.25
# Seconds after which a question is repeated at the earliest.
_AGAIN = 0.5
# Questions without an expected answer between two controls: at first, at least, and at most. The most is what fits into
# the shortest queue on the way, that of an interface of the userspace datapath.
_FIRST_BATCH, _SMALLEST_BATCH, _LARGEST_BATCH = 8, 2, 64


@dataclass(slots=True)
class Pace:
    """What was learnt about the hosts: questions under way, seconds of an answer on average and at least."""

    window: int = _FIRST
    batch: int = _FIRST_BATCH
    average: float = 0.0
    answers: int = 0
    slowest: float = 0.0

    def learn(self, took: float) -> None:
        """Take an answer into account, which took so many seconds."""
        self.answers += 1
        self.average += (took - self.average) / min(self.answers, 8)
        self.slowest = max(self.slowest, took)
        if took > _PROMPT:
            self.window = max(self.window - 1, _FEWEST)
        elif self.window < _MOST:
            self.window += 1

    def pass_over(self) -> None:
        """Let one more be asked in place of one that gets no answer, unless answers are late as well."""
        if self.average <= _PROMPT:
            self.window = min(self.window + 1, _MOST_SILENT)

    def learn_batch(self, took: float) -> None:
        """Take the control after a batch into account, whose answer took so many seconds."""
        grown = 2 * self.batch if took <= _PROMPT else self.batch // 2
        self.batch = min(max(grown, _SMALLEST_BATCH), _LARGEST_BATCH)

    @property
    def patience(self) -> float:
        """Seconds after which a question is repeated."""
        return max(_AGAIN, 2 * self.average)
