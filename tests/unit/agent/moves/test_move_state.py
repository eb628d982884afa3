# SPDX-License-Identifier: Apache-2.0
"""The note that a playbook moves addresses between hosts."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.agent.moves import move_state


@pytest.fixture
def now(monkeypatch) -> list[float]:
    """The seconds since the machine started."""
    clock = [1000.0]
    monkeypatch.setattr(move_state.time, "monotonic", lambda: clock[0])
    return clock


def test_a_move_lasts_until_the_plan_is_applied_or_no_step_comes(tmp_path: Path, now: list[float]):
    path = str(tmp_path / "heddle" / "move")
    assert not move_state.is_moving(path)
    move_state.end_move(path)
    move_state.note_move(path)
    now[0] += 100
    assert move_state.is_moving(path)
    move_state.note_move(path)
    now[0] += 119
    assert move_state.is_moving(path)
    now[0] += 1
    assert not move_state.is_moving(path)
    move_state.note_move(path)
    move_state.end_move(path)
    assert not move_state.is_moving(path)


@pytest.mark.parametrize("text", ["", "soon", "1001.0"])
def test_a_damaged_note_is_none(tmp_path: Path, now: list[float], text: str):
    path = tmp_path / "move"
    path.write_text(text)
    assert not move_state.is_moving(str(path))
