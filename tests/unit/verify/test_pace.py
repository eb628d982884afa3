# SPDX-License-Identifier: Apache-2.0
"""How fast hosts are asked: as fast as they answer, and not slower because somebody never does."""

from __future__ import annotations

from collections import Counter

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.verify.pace import Pace, ask_once, ask_until_answered

RATE = 800


class Hosts:
    """Hosts that decide on one question after the other, and drop what does not fit into their queue."""

    def __init__(self, seconds: float, queue: int, mute=(), loss: int = 0):
        self.seconds, self.queue, self.mute, self.loss = seconds, queue, set(mute), loss
        self.time = self.busy = 0.0
        self.coming: list[tuple[float, int, float]] = []
        self.asked: Counter = Counter()
        self.times: list[float] = []

    def now(self):
        return self.time

    def ask(self, number):
        self.times.append(self.time)
        self.asked[number] += 1
        if self.loss and sum(self.asked.values()) % self.loss == 0:
            return
        if (self.busy - self.time) / self.seconds >= self.queue:
            return
        self.busy = max(self.busy, self.time) + self.seconds
        if number not in self.mute:
            self.coming.append((self.busy, number, self.time))

    def hear(self, until):
        first = min((at for at, _number, _asked in self.coming), default=until)
        self.time = max(self.time, min(first, until))
        heard = [one for one in self.coming if one[0] <= self.time]
        self.coming = [one for one in self.coming if one[0] > self.time]
        return [(number, at - asked) for at, number, asked in heard]


@pytest.mark.parametrize("seconds", [0.0005, 0.01, 0.05, 0.2], ids=["fast", "medium", "emulated", "slowest"])
def test_all_are_answered_in_little_more_time_than_the_hosts_need_and_few_are_asked_twice(seconds):
    hosts, pace = Hosts(seconds, queue=40), Pace(RATE)
    ask_until_answered(range(200), hosts, pace, timeout=20)
    assert set(hosts.asked) == set(range(200))
    assert sum(hosts.asked.values()) <= 220
    assert hosts.time <= 1.2 * max(200 * seconds, 200 / RATE) + 1


def test_nobody_is_asked_faster_than_allowed():
    hosts = Hosts(0.0001, queue=1000)
    ask_until_answered(range(500), hosts, Pace(100), timeout=5)
    assert hosts.time == pytest.approx(5, rel=0.02)
    for first, later in zip(hosts.times, hosts.times[10:], strict=False):
        assert later - first >= 6 / 100 - 1e-9


def test_what_is_lost_is_asked_again():
    hosts = Hosts(0.001, queue=100, loss=7)
    ask_until_answered(range(100), hosts, Pace(RATE), timeout=5)
    assert max(hosts.asked.values()) > 1
    assert hosts.time < 3


@pytest.mark.parametrize("mute", [range(1), range(100), range(200)], ids=["one", "half", "all"])
def test_who_never_answers_makes_nobody_wait_longer_than_the_timeout(mute):
    hosts, pace = Hosts(0.002, queue=100, mute=mute), Pace(RATE)
    ask_until_answered(range(200), hosts, pace, timeout=5)
    assert pace.answers == 200 - len(mute)
    assert hosts.time <= 5 + len(mute) * 0.5 / 8 + 2
    assert pace.unanswered_rate == RATE


@pytest.mark.parametrize(
    ("seconds", "least", "most"),
    [(0.001, RATE, RATE), (0.05, 25, 100), (0.5, 25, 25)],
    ids=["fast", "emulated", "slow"],
)
def test_silence_is_asked_for_as_fast_as_answers_came(seconds, least, most):
    pace = Pace(RATE)
    ask_until_answered(range(100), Hosts(seconds, queue=40), pace, timeout=20)
    assert least <= pace.unanswered_rate <= most
    hosts = Hosts(0.0001, queue=1000)
    ask_once(range(200), hosts, pace.unanswered_rate)
    assert hosts.asked == dict.fromkeys(range(200), 1)
    assert hosts.time == pytest.approx(200 / pace.unanswered_rate, rel=0.05)


def test_without_anybody_to_learn_from_the_rate_is_the_one_that_was_asked_for():
    hosts, pace = Hosts(0.001, queue=40), Pace(RATE)
    ask_until_answered([], hosts, pace, timeout=20)
    assert (hosts.time, pace.unanswered_rate) == (0, RATE)
