# SPDX-License-Identifier: Apache-2.0
"""Tests with several parameters: the combinations that `make test` runs, and those that only `make test-long` runs."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

import pytest
from _pytest.mark import ParameterSet


def pairwise(cases: Iterable[tuple]) -> list[ParameterSet]:
    """Return the cases for `pytest.mark.parametrize`, with the mark `long` on those that are not needed for pairs.

    Those without it have together every two values of two parameters that are in any case.
    """
    return _covering([*cases], 2)


def each_value(cases: Iterable[tuple]) -> list[ParameterSet]:
    """As `pairwise`, where values of two parameters do not interact: those without the mark have every value."""
    return _covering([*cases], 1)


def _covering(cases: list[tuple], size: int) -> list[ParameterSet]:
    """Leave without a mark, again and again, the first of the cases that add most; equal cases give equal marks."""
    of_case = [set(combinations(enumerate(case), size)) for case in cases]
    missing, needed = set().union(*of_case), set()
    while missing:
        best = max(range(len(cases)), key=lambda number: (len(of_case[number] & missing), -number))
        needed.add(best)
        missing -= of_case[best]
    return [
        pytest.param(*case, marks=() if number in needed else pytest.mark.long, id="-".join(map(_words, case)))
        for number, case in enumerate(cases)
    ]


def _words(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
