# SPDX-License-Identifier: Apache-2.0
"""What a kernel leaves that was killed is removed by the next run, and what another one uses is not."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent.parent
if str(ROOT / "notebooks") not in sys.path:
    sys.path.insert(0, str(ROOT / "notebooks"))

from heddle_notebook import play, temporary  # noqa: E402 - needs the path above

PREFIX = "heddle-run-"
KILLED = """
import os, sys
from heddle_notebook import temporary
with temporary.directory(sys.argv[1]) as made:
    (made / "env").touch()
    os.kill(os.getpid(), 9)
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the system's place for temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "notebooks"))
    return tmp_path


def test_the_next_run_removes_what_a_killed_kernel_left(place: Path) -> None:
    assert subprocess.run([sys.executable, "-c", KILLED, PREFIX], check=False).returncode == -9
    (left,) = place.iterdir()
    (place / f"{PREFIX}of-an-earlier-version").mkdir()
    with temporary.directory(PREFIX) as one, temporary.directory(PREFIX) as two:
        assert not left.exists()
        assert list(one.iterdir()) == list(two.iterdir()) == []
    assert [path.name for path in place.iterdir()] == [f"{PREFIX}of-an-earlier-version"]


def test_runs_use_such_a_directory(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert subprocess.run([sys.executable, "-c", KILLED, PREFIX], check=False).returncode == -9
    (left,) = place.iterdir()

    def run_async(**words: object) -> None:
        assert Path(str(words["private_data_dir"])).is_dir()
        assert not left.exists()
        raise InterruptedError

    monkeypatch.setattr("ansible_runner.run_async", run_async)
    with pytest.raises(InterruptedError):
        play.run("test", place / "artifacts", playbook="none.yml")
    assert not list(place.glob(f"{PREFIX}*"))
