# SPDX-License-Identifier: Apache-2.0
"""A daemon is waited for as long as it works."""

from __future__ import annotations

import itertools
import os

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.control_socket import NORTHD
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.patience import (
    attempts_while_working,
    processor_seconds,
)

PERIOD = 0.02


def periods(values) -> int:
    """Return for how many periods a process is waited for that has used these seconds when it is asked."""
    readings = iter(values)
    asked = []

    def used():
        asked.append(next(readings))
        return asked[-1]

    for _attempt in attempts_while_working(PERIOD, used, PERIOD):
        pass
    return len(asked) // 2


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param([5.0, 5.0], 1, id="idle"),
        pytest.param([5.0, 5.0 + PERIOD / 200], 1, id="next to idle"),
        pytest.param([None, None], 1, id="no process"),
        pytest.param([5.0, None], 1, id="ended"),
        pytest.param([5.0, 6.0, 6.0, 7.0, 7.0, 7.0], 3, id="works, then stands still"),
        pytest.param([5.0, 0.01, 0.02, 0.02], 2, id="started anew"),
        pytest.param(itertools.count(), 10, id="never finished"),
    ],
)
def test_time_begins_anew_while_a_process_works(values, expected):
    assert periods(values) == expected


def test_processor_seconds_of_a_daemon(tmp_path, monkeypatch):
    monkeypatch.setenv("OVN_RUNDIR", str(tmp_path))
    assert processor_seconds(NORTHD) is None
    file = tmp_path / f"{NORTHD}.pid"
    file.write_text(f"{os.getpid()}\n")
    before = processor_seconds(NORTHD)
    assert 0 <= before <= sum(os.times()[:2]) + 0.02
    while sum(os.times()[:2]) < before + 0.05:
        pass
    assert processor_seconds(NORTHD) > before
    file.write_text("none")
    assert processor_seconds(NORTHD) is None
