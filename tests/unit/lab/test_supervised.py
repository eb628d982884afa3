# SPDX-License-Identifier: Apache-2.0
"""What the tests of a lab started ends with them, however they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.polling import attempts
from lab.config import PROJECT
from lab.processes import identity
from tests import supervised

# Seconds; only a failure takes as long.
LIMIT = 600
# Like ansible-playbook, whose workers are in sessions of their own. It ignores what it may ignore.
PLAY = """#!/bin/sh
trap '' HUP INT TERM
cd "$(dirname "$0")"
setsid sh -c 'echo $$ > worker.new; mv worker.new worker; exec sleep 1000' &
echo $$ > playbook.new; mv playbook.new playbook
wait
"""
TESTS = """
from pathlib import Path
from tests.lab import conftest, disturbed_run

conftest.ROOT = disturbed_run.ROOT = Path(__file__).parent

def test_play():
    conftest.Lab(Path()).play("long.yml")

def test_disturbed():
    disturbed_run.disturbed("long.yml", "never printed", print)
"""


@pytest.fixture
def play(tmp_path: Path) -> Iterator[Path]:
    """A program with a child; both are killed after the test if they are left."""
    program = tmp_path / "scripts" / "play"
    program.parent.mkdir()
    program.write_text(PLAY)
    program.chmod(0o755)
    yield program
    for name in ("playbook", "worker"):
        with suppress(FileNotFoundError, ProcessLookupError):
            os.kill(int((program.parent / name).read_text()), signal.SIGKILL)


def started(play: Path, parent: subprocess.Popen) -> list[dict]:
    """Wait for the program and its child; return what identifies them."""
    files = [play.parent / name for name in ("playbook", "worker")]
    for _attempt in attempts(LIMIT):
        if all(file.exists() for file in files):
            break
        assert parent.poll() is None
    found = [identity(int(file.read_text())) for file in files]
    assert all(found)
    return found


def left(processes: list[dict]) -> list[int]:
    """Wait until the processes have ended; return those that have not."""
    found: list[int] = []
    for _attempt in attempts(LIMIT):
        found = [one["pid"] for one in processes if identity(one["pid"]) == one]
        if not found:
            break
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("test", ["test_play", "test_disturbed"])
def test_a_playbook_ends_with_pytest(tmp_path: Path, play: Path, test: str, number: signal.Signals) -> None:
    file = tmp_path / "test_long.py"
    file.write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--rootdir={tmp_path}", f"{file}::{test}"]
    environment = {**os.environ, "PYTHONPATH": f"{PROJECT}:{PROJECT}/collections", "PYTHONDONTWRITEBYTECODE": "1"}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL) as runner:
        try:
            processes = started(play, runner)
        finally:
            # Only pytest itself gets it, as from `kill`.
            runner.send_signal(number)
    assert runner.returncode == (2 if number == signal.SIGINT else -number)
    assert not left(processes)


def test_a_program_that_a_time_out_cuts_off_is_ended(play: Path) -> None:
    with (
        pytest.raises(subprocess.TimeoutExpired),
        supervised.running([play], stdout=subprocess.PIPE, text=True) as process,
    ):
        processes = started(play, process)
        process.communicate(timeout=0)
    # It has been waited for.
    assert [identity(one["pid"]) for one in processes] == [None, None]


def test_what_a_program_leaves_when_it_ends_by_itself_goes_on() -> None:
    done = supervised.run(["sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 & echo $!; exit 7"])
    process = int(done.stdout)
    try:
        assert identity(process)
        assert done.returncode == 7
    finally:
        os.kill(process, signal.SIGKILL)
    assert supervised.run(["sh", "-c", "kill -KILL $$"]).returncode == 128 + signal.SIGKILL
