# SPDX-License-Identifier: Apache-2.0
"""Runs of playbooks during which something happens."""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
from collections.abc import Callable

from lab.processes import descendants, end, identity
from tests import supervised
from tests.lab.conftest import ROOT


def disturbed(playbook: str, words: str, action: Callable[[subprocess.Popen], object], *arguments: str) -> str:
    """Run a playbook, and do something when these words appear in its output. Returns what it printed."""
    command = [str(ROOT / "scripts" / "play"), f"playbooks/{playbook}", *arguments]
    # The words are names of tasks, which the short output leaves out.
    environment = {**os.environ, "ANSIBLE_NOCOLOR": "1", "HEDDLE_VERBOSE": "1", "HEDDLE_LOG_DIRECTORY": ""}
    output, waiting = [], True
    with supervised.running(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        for line in process.stdout:
            output.append(line)
            if waiting and words in line:
                waiting = False
                action(process)
    assert not waiting, f"it ended before {words!r}: " + "".join(output)[-4000:]
    return "".join(output)


def kill_run(process: subprocess.Popen) -> None:
    """Kill the playbook, and what it started on the control node in its session.

    Workers of Mitogen have sessions of their own and go on, as for a user who kills a run; they end with pytest.
    """
    started = {pid: identity(pid) for pid in descendants(process.pid)}
    os.killpg(process.pid, signal.SIGKILL)
    atexit.register(_end_those_left, started)


def _end_those_left(started: dict[int, dict | None]) -> None:
    end([pid for pid, known in started.items() if known and identity(pid) == known])
