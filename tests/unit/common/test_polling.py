# SPDX-License-Identifier: Apache-2.0
"""How often and how long something is asked for; the clock is the test's own."""

from __future__ import annotations

import math

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common import polling
from ansible_collections.heddle.ovn.plugins.module_utils.common.polling import attempts, wait_for_all


class Clock:
    """Time passes only in sleeps, and while something is asked."""

    def __init__(self) -> None:
        self.now, self.slept = 1000.0, []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(polling, "time", made)
    return made


@pytest.mark.parametrize("timeout", [0, -1])
def test_without_time_it_is_asked_once(clock, timeout):
    assert len(list(attempts(timeout))) == 1
    assert clock.slept == []


def test_pauses_double_up_to_the_longest_and_the_last_attempt_is_at_the_deadline(clock):
    asked = [clock.now - 1000 for _attempt in attempts(1.0, shortest=0.1, longest=0.3)]
    assert clock.slept == pytest.approx([0.1, 0.2, 0.3, 0.3, 0.1])
    assert asked[-1] == pytest.approx(1.0)


def test_asking_that_takes_longer_than_the_time_ends_it(clock):
    asked = 0
    for _attempt in attempts(1.0):
        asked += 1
        clock.now += 5
    assert asked == 1


def test_it_goes_on_without_an_end_when_that_is_wanted(clock):
    for number, _attempt in enumerate(attempts(math.inf)):
        if number == 100:
            break
    assert clock.slept[-1] == 0.25


def test_many_are_waited_for_as_long_as_some_appear(clock):
    """Ports of hundreds of networks appear one after the other on a slow machine."""
    began = clock.now
    assert wait_for_all(lambda: range(max(0, 10 - int((clock.now - began) // 20))), 30) == range(0)
    assert 200 <= clock.now - began < 201


def test_what_never_appears_is_reported_after_the_last_that_did(clock):
    began = clock.now
    assert wait_for_all(lambda: ["a", "never"] if clock.now < began + 20 else ["never"], 30) == ["never"]
    assert 50 <= clock.now - began < 51


def test_nothing_missing_is_asked_once(clock):
    assert (wait_for_all(list, 30), clock.slept) == ([], [])
    assert (wait_for_all(lambda: ["never"], 0), clock.slept) == (["never"], [])
