# SPDX-License-Identifier: Apache-2.0
"""Which notebooks the report is made of."""

from __future__ import annotations

import json

import pytest

from scripts.report import NOTEBOOKS, UPGRADE, UPGRADE_REPORT, has_subject


@pytest.mark.parametrize(("report", "expected"), [
    (None, False),
    ({"traffic": {}}, False),
    ({"traffic": {"flows": [{}]}}, True),
])  # fmt: skip
def test_the_upgrade_is_shown_where_its_traffic_was_measured(tmp_path, report, expected):
    if report is not None:
        (tmp_path / UPGRADE_REPORT).write_text(json.dumps(report))
    assert has_subject(UPGRADE, tmp_path) == expected
    assert all(has_subject(name, tmp_path) for name in NOTEBOOKS if name != UPGRADE)
