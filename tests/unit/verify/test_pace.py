# SPDX-License-Identifier: Apache-2.0
"""How fast hosts are asked: as fast as they answer, and not slower because somebody never does."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.verify import prober


@dataclass
class Asked:
    """Who answers questions that come at most so fast; 0 is nobody."""

    answers_up_to: int
    must: bool = True
    reached: bool = False
    milliseconds: float = 1.0

    @property
    def pair(self):
        return SimpleNamespace(reach=self.must)


@pytest.fixture
def rates(monkeypatch):
    """The rates at which those whose silence is expected were asked."""
    found = []

    def ask_each(asked, _probes, _selector, _run, rate):
        for _number, one in asked:
            one.reached = one.reached or rate <= one.answers_up_to
        if not asked[0][1].must:
            found.append(rate)

    clock = itertools.count()
    monkeypatch.setattr(prober, "_ask_each", ask_each)
    monkeypatch.setattr(prober, "_listen", lambda *_arguments: None)
    monkeypatch.setattr(prober, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    return found


@pytest.mark.parametrize(
    ("must_answer", "expected"),
    [
        ([800] * 20, 800),
        ([800] * 20 + [0], 800),
        ([800] * 20 + [0] * 20, 800),
        ([800] * 5 + [100] * 20, 100),
        ([800] * 5 + [100] * 20 + [0] * 20, 100),
        ([0] * 20, 800),
    ],
    ids=["all", "all but one", "half, others never", "most when slower", "and some never", "nobody"],
)
def test_silence_is_asked_for_as_fast_as_answers_came(rates, must_answer, expected):
    probes = [*map(Asked, must_answer), Asked(0, must=False), Asked(0, must=False)]
    prober._converse(probes, None, 100, 800)
    assert rates == [expected] * prober.FEWEST_ROUNDS
