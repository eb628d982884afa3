# SPDX-License-Identifier: Apache-2.0
"""Rate control of test packets: adapts to how fast the hosts answer.

Open vSwitch sets up each new flow in software, and a small or emulated host handles only few per second. Packets that
arrive faster wait in its queue for minutes, and are dropped when the queue is full. So only a few questions are
outstanding at once: more after prompt answers, fewer after late ones. Questions without any answer do not change the
rate; a broken network does not slow down the rest.
"""

from __future__ import annotations

from dataclasses import dataclass

# Outstanding questions: initially, at least, at most, and at most when some get no answer at all.
_FIRST, _FEWEST, _MOST, _MOST_SILENT = 8, 2, 32, 256
# Seconds within which an answer did not wait in a queue.
_PROMPT = 0.25
# Minimum seconds before a question is repeated.
_AGAIN = 0.5
# Questions without an expected answer between two controls: initially, at least, and at most. The maximum is what fits
# into the shortest queue on the path, that of an interface of the userspace datapath.
_FIRST_BATCH, _SMALLEST_BATCH, _LARGEST_BATCH = 8, 2, 64


@dataclass(slots=True)
class Pace:
    """Measured response of the hosts: outstanding questions, and answer times in seconds, average and minimum."""

    window: int = _FIRST
    batch: int = _FIRST_BATCH
    average: float = 0.0
    answers: int = 0
    slowest: float = 0.0

    def learn(self, took: float) -> None:
        """Account for an answer that took so many seconds."""
        self.answers += 1
        self.average += (took - self.average) / min(self.answers, 8)
        self.slowest = max(self.slowest, took)
        if took > _PROMPT:
            self.window = max(self.window - 1, _FEWEST)
        elif self.window < _MOST:
            self.window += 1

    def pass_over(self) -> None:
        """Let one more question be sent in place of one without an answer, unless answers are late as well."""
        if self.average <= _PROMPT:
            self.window = min(self.window + 1, _MOST_SILENT)

    def learn_batch(self, took: float) -> None:
        """Account for the control after a batch, whose answer took so many seconds."""
        grown = 2 * self.batch if took <= _PROMPT else self.batch // 2
        self.batch = min(max(grown, _SMALLEST_BATCH), _LARGEST_BATCH)

    @property
    def patience(self) -> float:
        """Return the seconds after which a question is repeated."""
        return max(_AGAIN, 2 * self.average)
