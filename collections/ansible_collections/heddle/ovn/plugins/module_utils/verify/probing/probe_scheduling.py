# SPDX-License-Identifier: Apache-2.0
"""Scheduling of test packets: order, repetition and confirmation of failures. Does no I/O itself.

Results do not depend on how fast the hosts are. A question without an answer is evaluated only against controls:
questions between the same hosts that were answered before and are answered again after it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from .pace import Pace
from .result import MARGIN

# How often a question is sent in a batch before it counts as unconfirmed; the waits are one, one and two patiences.
_TRIES, _WAITS = 3, (1, 1, 2)
# A question that must not be answered is sent this often, and this often alone when it is confirmed.
_SILENT_ROUNDS, _CONFIRM_ROUNDS = 2, 5
# A lost packet is repeated after this many seconds, or after twice the average response time.
_CONTROL_AGAIN = 0.2
# Minimum seconds to wait for an answer; otherwise MARGIN times as long as the slowest control took.
_SHORTEST = 0.2


class Reply(NamedTuple):
    """The answer to one attempt of a question, by the workload that was asked, after `took` seconds."""

    number: int
    attempt: int
    took: float
    large: bool


class Conversation(Protocol):
    """The exchange of questions and answers; times are in seconds."""

    def now(self) -> float:
        """Return the time."""

    def ask(self, number: int, *, large: bool = False) -> int:
        """Send question `number` (once more), in a packet of full size if `large`; return the attempt's number."""

    def receive(self, until: float) -> Iterable[Reply]:
        """Wait for answers until `until` at most, and return them."""


@dataclass(slots=True)
class Unconfirmed:
    """A question that got no answer in a batch, and its result when asked alone.

    `controls` are questions known to be answered, the most similar first; `least` is how many seconds to wait in all
    where the controls do not cover the target's host. `copies` is how often it is sent at a time. `tries` and `waited`
    (seconds) count what was asked alone, `slowest` is the slowest control meanwhile. `dead` is for how many seconds no
    control was answered, 0 when they were.
    """

    number: int
    large: bool
    controls: tuple[int, ...]
    least: float = 0.0
    copies: int = 1
    tries: int = 0
    waited: float = 0.0
    slowest: float = 0.0
    dead: float = 0.0
    answered: set = field(default_factory=set)

    @property
    def concluded(self) -> bool:
        """Whether every packet that must be answered was."""
        return self.answered >= ({False, True} if self.large else {False})


def ask_required(
    required: dict[int, bool], conversation: Conversation, pace: Pace, timeout: float
) -> tuple[set[int], set[int]]:
    """Ask what must be answered; return the numbers that were, and those where a packet of full size was.

    `required` maps each number to whether a packet of full size must be answered as well: it is sent first, since its
    answer proves both. Each question is asked a few times; asking ends when nothing arrives for `timeout` seconds.
    """
    waiting = deque(required)
    answered: set[int] = set()
    large: set[int] = set()
    tries: Counter[int] = Counter()
    under_way: dict[int, float] = {}
    last_reply = conversation.now()

    def finished(number: int) -> bool:
        return number in (large if required[number] else answered)

    while (waiting or under_way) and (now := conversation.now()) < last_reply + timeout:
        for number in [one for one, until in under_way.items() if until <= now]:
            del under_way[number]
            pace.pass_over()
            if tries[number] < _TRIES:
                waiting.append(number)
        while waiting and len(under_way) < pace.window:
            number = waiting.popleft()
            if finished(number):
                continue
            wait = _WAITS[tries[number]] * pace.patience
            # From the second attempt on, both sizes are sent: the small one excludes a small MTU as the cause.
            if not required[number] or (tries[number] and number not in answered):
                conversation.ask(number)
            if required[number]:
                conversation.ask(number, large=True)
            tries[number] += 1
            under_way[number] = now + wait
        if not under_way:
            continue
        for one in conversation.receive(min([last_reply + timeout, *under_way.values()])):
            last_reply = conversation.now()
            pace.learn(one.took)
            answered.add(one.number)
            if one.large:
                large.add(one.number)
            if one.number in required and finished(one.number):
                under_way.pop(one.number, None)
    return answered, large


class Controls:
    """Control questions, which are known to be answered: the time reference for those that must not be."""

    def __init__(self, conversation: Conversation, pace: Pace, timeout: float) -> None:
        self.conversation, self.pace, self.timeout = conversation, pace, timeout
        self.others: list[Reply] = []

    def wait(self, number: int) -> float | None:
        """Ask a control until it is answered; return the seconds that took, None after the time-out.

        An answer to an earlier attempt does not count. Answers to other questions are collected in `others`.
        """
        began = now = again = self.conversation.now()
        first = None
        while now < began + self.timeout:
            if now >= again:
                attempt = self.conversation.ask(number)
                first = attempt if first is None else first
                again = now + max(_CONTROL_AGAIN, 2 * self.pace.average)
            done = None
            for one in self.conversation.receive(min(again, began + self.timeout)):
                if one.number == number and one.attempt >= first:
                    done = one
                else:
                    self.others.append(one)
            now = self.conversation.now()
            if done is not None:
                self.pace.learn(done.took)
                return now - began
        return None

    def listen(self, until: float) -> None:
        """Collect answers until `until`."""
        while self.conversation.now() < until:
            self.others += self.conversation.receive(until)


def ask_silent(
    silent: list[int],
    controls: list[int],
    conversation: Conversation,
    pace: Pace,
    timeout: float,
) -> tuple[set[int], float]:
    """Ask what must not be answered; return what could not be tested, and the seconds of the slowest control.

    After each batch one control is waited for, in turn, so that no queue overflows. Then the batch is repeated, while
    switches still have the flows of its first packets. At the end every control is waited for, so that all earlier
    packets have been forwarded or dropped by then.
    """
    clock = Controls(conversation, pace, timeout)
    slowest, turn = 0.0, 0
    if not controls:
        return set(silent), 0.0
    waiting = deque(silent)
    while waiting:
        batch = [waiting.popleft() for _number in range(min(pace.batch, len(waiting)))]
        longest = 0.0
        for _round in range(_SILENT_ROUNDS):
            for number in batch:
                conversation.ask(number)
            took = clock.wait(controls[turn % len(controls)])
            turn += 1
            if took is None:
                return {*batch, *waiting}, timeout
            longest = max(longest, took)
        slowest = max(slowest, longest)
        pace.learn_batch(longest)
    for number in controls:
        took = clock.wait(number)
        if took is None:
            return set(silent), timeout
        slowest = max(slowest, took)
    clock.listen(conversation.now() + max(_SHORTEST, 2 * slowest))
    return set(), slowest


def confirm(unconfirmed: list[Unconfirmed], conversation: Conversation, pace: Pace, timeout: float) -> None:
    """Ask unconfirmed questions again, each alone: the next one is sent when a control after it has been answered.

    One that is not `concluded` has failed when `tries` is not 0 and `dead` is 0.
    """
    clock = Controls(conversation, pace, timeout)
    dead: set[int] = set()
    for _round in range(_CONFIRM_ROUNDS):
        left = [one for one in unconfirmed if not one.concluded and not one.dead]
        if not left:
            return
        slowest = 0.0
        for one in left:
            for size in ((False, True) if one.large else (False,)) * one.copies:
                conversation.ask(one.number, large=size)
            took = _control(one, clock, dead)
            if took is None:
                one.dead = timeout
                continue
            one.tries += one.copies
            one.slowest = max(one.slowest, took)
            slowest = max(slowest, took)
        began = conversation.now()
        until = began + max(_SHORTEST, MARGIN * slowest, *(one.least / _CONFIRM_ROUNDS for one in left))
        by_number = {one.number: one for one in left}
        # What arrived by then is read even where this process could not run in time.
        over = False
        while True:
            for reply in clock.others:
                if reply.number in by_number:
                    by_number[reply.number].answered |= {reply.large, False}
            clock.others.clear()
            if over or all(one.concluded or one.dead for one in left):
                break
            over = conversation.now() >= until
            clock.others += conversation.receive(until)
        for one in left:
            one.waited += conversation.now() - began


def _control(one: Unconfirmed, clock: Controls, dead: set[int]) -> float | None:
    """Return the seconds of the first control of a question that is answered, None when none is."""
    for number in one.controls:
        if number in dead:
            continue
        took = clock.wait(number)
        if took is not None:
            return took
        dead.add(number)
    return None
