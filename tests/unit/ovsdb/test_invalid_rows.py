# SPDX-License-Identifier: Apache-2.0
"""Messages about rows that a database cannot hold."""

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.errors import InvalidRows


@pytest.mark.parametrize(
    ("count", "last"), [(1, "D: 0"), (20, "D: 19"), (21, "D: and 1 more"), (5000, "D: and 4980 more")]
)
def test_the_text_stays_short_and_all_problems_are_kept(count, last):
    error = InvalidRows("D", [str(number) for number in range(count)])
    lines = str(error).splitlines()
    assert (len(lines), lines[-1]) == (min(count, 21), last)
    assert len(error.problems) == count
