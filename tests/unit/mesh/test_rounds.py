# SPDX-License-Identifier: Apache-2.0
"""The rate of heartbeats, by how late their acknowledgements are."""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.mesh.heartbeat import INTERVAL_SECONDS
from ansible_collections.heddle.ovn.plugins.module_utils.mesh.rounds import Rounds

TICK = 0.01


class End:
    """One end's rounds; each is acknowledged after `delay` seconds, by no one if that is None."""

    def __init__(self):
        self.rounds, self.now, self.waiting = Rounds(), 0.0, []

    def run(self, seconds, delay):
        """Return how many rounds began."""
        begun, end = 0, self.now + seconds
        while self.now < end:
            self.now += TICK
            number = self.rounds.due(self.now, INTERVAL_SECONDS)
            if number is not None:
                begun += 1
                if delay is not None:
                    self.waiting.append((self.now + delay, number))
            for when, one in self.waiting:
                if when <= self.now:
                    self.rounds.acknowledged(one, self.now)
            self.waiting = [one for one in self.waiting if one[0] > self.now]
        return begun


@pytest.mark.parametrize(
    ("delay", "fewest", "most"), [(0.0, 90, 101), (0.02, 90, 101), (0.2, 16, 18), (0.5, 6, 8), (0.9, 5, 9), (5, 6, 14)]
)
def test_late_acknowledgements_make_the_rate_lower(delay, fewest, most):
    assert fewest <= End().run(10, delay) <= most


def test_missing_acknowledgements_make_the_rate_that_of_an_idle_connection():
    end = End()
    end.run(2, 0.001)
    assert 15 <= end.run(10, None) <= 18


def test_rate_is_the_former_one_when_acknowledgements_are_prompt_again():
    end = End()
    end.run(20, 1.5)
    end.run(3, 0.001)
    assert end.run(10, 0.001) >= 90
