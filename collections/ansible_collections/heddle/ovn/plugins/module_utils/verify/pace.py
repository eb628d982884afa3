# SPDX-License-Identifier: Apache-2.0
"""How fast to ask: as fast as hosts answer, which nobody knows before.

A switch decides on each new flow in software, and on a small or emulated host not many in a second. Whoever asks it
faster waits for minutes in its queue, and what does not fit there is lost. So only a few questions are under way at
once: more of them after prompt answers, fewer after late ones. Questions that nobody answers at all say nothing about
that; a broken network does not make the rest slower.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

# Questions under way: at first, at least, and at most.
_FIRST, _FEWEST, _MOST = 8, 2, 256
# An answer within so many seconds did not wait in a queue.
_PROMPT = 0.25
# After so many seconds, or twice as long as answers take, a question is asked again.
_AGAIN = 0.5
# Questions that may go out without a pause between them.
_BURST = 4
# One question whose answer is not expected costs a fraction of one that crosses two hosts and comes back.
_CHEAPER = 3
# Questions a second, when answers are so slow that there is no telling.
_SLOWEST = 25


class Conversation(Protocol):
    """What is asked and heard; times are in seconds."""

    def now(self) -> float:
        """Return the time."""

    def ask(self, number: int) -> None:
        """Send question `number` (once more)."""

    def hear(self, until: float) -> Iterable[tuple[int, float]]:
        """Wait for answers until then at most; return the questions that are answered now, and how long each took."""


@dataclass(slots=True)
class Pace:
    """What was learnt about the hosts: questions under way, and how many seconds an answer takes on average."""

    rate: float
    window: int = _FIRST
    average: float = 0.0
    answers: int = 0

    def learn(self, took: float) -> None:
        """Take an answer into account."""
        self.answers += 1
        self.average += (took - self.average) / min(self.answers, 8)
        self.window = min(self.window + 1, _MOST) if took <= _PROMPT else max(self.window - 1, _FEWEST)

    def pass_over(self) -> None:
        """Let one more be asked in place of one who does not answer, unless answers are late as well."""
        if self.average <= _PROMPT:
            self.window = min(self.window + 1, _MOST)

    @property
    def patience(self) -> float:
        """After how many seconds a question is asked again."""
        return max(_AGAIN, 2 * self.average)

    @property
    def unanswered_rate(self) -> float:
        """How many questions a second that nobody is expected to answer the hosts can stand."""
        if not self.answers:
            return self.rate
        return min(self.rate, max(_SLOWEST, _CHEAPER * self.window / max(self.average, 1e-3)))


def ask_until_answered(numbers: Iterable[int], conversation: Conversation, pace: Pace, timeout: float) -> None:
    """Ask until all have answered, or nobody has for `timeout` seconds."""
    waiting = deque(numbers)
    missing = set(waiting)
    under_way: dict[int, float] = {}
    heard = free = conversation.now()
    while missing and (now := conversation.now()) < heard + timeout:
        for number in [one for one, asked in under_way.items() if asked + pace.patience <= now]:
            del under_way[number]
            waiting.append(number)
            pace.pass_over()
        while waiting and len(under_way) < pace.window and free <= now:
            number = waiting.popleft()
            if number in missing:
                conversation.ask(number)
                under_way[number] = now
                free = max(free, now - _BURST / pace.rate) + 1 / pace.rate
        until = [heard + timeout, *(asked + pace.patience for asked in under_way.values())]
        if waiting and len(under_way) < pace.window:
            until.append(free)
        for number, took in conversation.hear(min(until)):
            heard = conversation.now()
            missing.discard(number)
            under_way.pop(number, None)
            pace.learn(took)


def ask_once(numbers: Iterable[int], conversation: Conversation, rate: float) -> None:
    """Ask each, so many a second, whether or not anybody answers."""
    free = conversation.now()
    for number in numbers:
        while free > conversation.now():
            conversation.hear(free)
        conversation.ask(number)
        free = max(free, conversation.now() - _BURST / rate) + 1 / rate
