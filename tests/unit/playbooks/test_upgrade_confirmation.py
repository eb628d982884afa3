# SPDX-License-Identifier: Apache-2.0
"""heddle_upgrade_confirm and heddle_upgrade_pause: the real playbook and roles, at a terminal."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
ASK_DRAIN, ASK_CLEAN_UP = "Drain node1 and change to transit-router?", "Remove the legacy topology, without rollback?"
DEADLINE = 300


class Terminal:
    """A command at a terminal of its own."""

    def __init__(self, command: list[str], environment: dict) -> None:
        self.output = ""
        self._process, self._terminal = pty.fork()
        if not self._process:
            os.chdir(ROOT)
            os.execve(command[0], command, environment)

    def wait_for(self, text: str) -> None:
        """Read until a text appears; what came before it is forgotten."""
        while text not in self.output:
            assert self._read(), f"ended before {text!r}: {self.output}"
        self.output = self.output.partition(text)[2]

    def answer(self, text: str) -> None:
        """Answer a question; again until the run goes on, since Ansible discards what comes before it listens."""
        deadline = time.monotonic() + DEADLINE
        while "TASK [" not in self.output:
            assert time.monotonic() < deadline, self.output
            os.write(self._terminal, text.encode())
            while select.select([self._terminal], [], [], 1)[0] and self._read():
                if "TASK [" in self.output:
                    return

    def end(self) -> int:
        """Read to the end; return the exit status."""
        while self._read():
            pass
        return self._wait()

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_exception) -> None:
        """End the command when it still runs."""
        if self._process:
            os.kill(self._process, signal.SIGKILL)
            self._wait()

    def _wait(self) -> int:
        status = os.waitpid(self._process, 0)[1]
        os.close(self._terminal)
        self._process = 0
        return os.waitstatus_to_exitcode(status)

    def _read(self) -> bool:
        assert select.select([self._terminal], [], [], DEADLINE)[0], self.output
        try:
            found = os.read(self._terminal, 65536)
        except OSError:
            # Linux reports the end of a terminal as EIO.
            return False
        self.output += found.decode(errors="replace")
        return bool(found)


def names(steps: list[list]) -> list[tuple[str, list]]:
    return [(step, nodes) for _moment, step, nodes in steps]


NODE1 = [("drain", ["node1"]), ("change", ["node1"])]
NODE2 = [("drain", ["node2"]), ("change", ["node2"])]
CLEAN_UP = [("clean_up", None)]


def run(command: list[str], environment: dict) -> subprocess.CompletedProcess:
    """Run a command without a terminal."""
    return subprocess.run(
        command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )


@pytest.mark.long
def test_steps_wait_for_a_yes_and_another_answer_stops(upgrade):
    command, environment, steps = upgrade([["node1"]], heddle_upgrade_confirm=True)
    with Terminal(command, environment) as terminal:
        terminal.wait_for(ASK_DRAIN)
        assert names(steps()) == []
        terminal.answer("yes\r")
        terminal.wait_for(ASK_CLEAN_UP)
        assert names(steps()) == NODE1
        terminal.answer("\r")
        assert terminal.end() != 0
        assert "not confirmed" in terminal.output
    assert names(steps()) == NODE1


def test_confirmation_without_a_terminal_stops_before_anything_changes(upgrade):
    command, environment, steps = upgrade([["node1"]], heddle_upgrade_confirm=True)
    done = run(command, environment)
    assert done.returncode != 0
    assert "run it without heddle_upgrade_confirm" in " ".join(done.stdout.split())
    assert steps() == []


@pytest.mark.long
def test_pause_between_batches(upgrade):
    command, environment, steps = upgrade([["node1"], ["node2"]], heddle_upgrade_pause=2)
    done = run(command, environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert names(steps()) == NODE1 + NODE2 + CLEAN_UP
    times = {(step, *(nodes or [])): moment for moment, step, nodes in steps()}
    assert times["drain", "node2"] - times["change", "node1"] >= 2
