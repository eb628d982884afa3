# SPDX-License-Identifier: Apache-2.0
"""Which combinations of parameters `make test` runs."""

from __future__ import annotations

from itertools import combinations, product

import pytest

from tests.matrix import each_value, pairwise

FULL = [*product("abc", (4, 6), ("Cluster", "Local"), (True, False))]
# Two values that are in no case together.
PARTIAL = [one for one in FULL if one[:2] != ("c", 6)]


def short(found) -> list[tuple]:
    return [one.values for one in found if not one.marks]


@pytest.mark.parametrize("cases", [FULL, PARTIAL], ids=["full", "partial"])
@pytest.mark.parametrize(("choose", "size"), [(pairwise, 2), (each_value, 1)])
def test_cases_without_the_mark_have_all_values_together_that_any_case_has(cases, choose, size):
    found = choose(cases)
    assert [one.values for one in found] == cases
    assert {part for one in short(found) for part in combinations(enumerate(one), size)} == {
        part for one in cases for part in combinations(enumerate(one), size)
    }
    assert len(short(found)) < len(cases) / 2
    assert {mark.name for one in found for mark in one.marks} == {"long"}
