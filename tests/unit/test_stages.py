# SPDX-License-Identifier: Apache-2.0
"""Long jobs: what fails is told wherever it ran, and nothing that was printed is lost."""

from __future__ import annotations

import sys

import pytest

from scripts.stages import Stage, run_all


def says(text: str, code: int = 0) -> Stage:
    program = f"import sys, time; time.sleep(0.05); print({text!r}, flush=True); sys.exit({code})"
    return Stage(text, [sys.executable, "-c", program])


@pytest.mark.parametrize("bad", ["first", "second", "beside"])
def test_a_failure_is_told_wherever_it_is_and_nothing_is_lost(capfd, bad):
    first, second, beside = (says(name, int(name == bad)) for name in ("first", "second", "beside"))
    assert run_all([first, second], go_on=True, aside=[beside]) == 1
    printed = capfd.readouterr().out
    lines = printed.splitlines()
    assert {lines.count(name) for name in ("first", "second", "beside")} == {1}
    assert f"=== {bad}: FAILED" in printed
    assert "stages: 2 passed, 1 failed, 0 skipped" in printed


def test_a_failure_ends_a_job_that_does_not_go_on(capfd):
    assert run_all([says("first", 1), says("second")], go_on=False, always=[says("last")]) == 1
    lines = capfd.readouterr().out.splitlines()
    assert "second" not in lines
    assert "last" in lines


def test_a_job_without_failures(capfd):
    assert run_all([says("first")], go_on=True, aside=[says("beside"), says("last")]) == 0
    assert "stages: 3 passed, 0 failed, 0 skipped" in capfd.readouterr().out
