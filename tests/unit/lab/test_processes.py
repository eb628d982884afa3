# SPDX-License-Identifier: Apache-2.0
"""A process is found by its pid file only when it really is the one that was started."""

import json
import subprocess
import sys
import time

import pytest

from lab import processes
from lab.errors import LabError


@pytest.fixture
def pid_file(tmp_path):
    path = tmp_path / "sleeper.pid"
    yield path
    processes.kill(path)


def start(pid_file, *argv):
    return processes.start(pid_file, argv or ("sleep", "600"), pid_file.parent / "log")


def test_a_started_process_is_found(pid_file):
    assert processes.running(pid_file) is None
    pid = start(pid_file)
    assert processes.running(pid_file) == pid


def test_a_killed_process_is_forgotten(pid_file):
    pid = start(pid_file)
    processes.kill(pid_file)
    assert processes.identity(pid) is None
    assert not pid_file.exists()


def test_its_children_end_with_it(pid_file):
    parent = start(pid_file, "sh", "-c", "sleep 600 & sleep 600 & wait")
    deadline = time.monotonic() + 600
    while len(children := processes.descendants(parent)) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(children) == 2
    processes.kill(pid_file)
    assert [processes.identity(pid) for pid in children] == [None, None]


@pytest.mark.parametrize("key", ["started", "boot"])
def test_reused_pid_is_not_killed(pid_file, key):
    with subprocess.Popen(["sleep", "600"]) as bystander:
        known = processes.identity(bystander.pid)
        pid_file.write_text(json.dumps({**known, key: "another"}))
        assert processes.running(pid_file) is None
        processes.kill(pid_file)
        assert bystander.poll() is None
        bystander.kill()


def test_zombie_counts_as_ended(pid_file):
    with subprocess.Popen(["true"]) as process:
        deadline = time.monotonic() + 600
        while processes.stat(process.pid)[0] != "Z" and time.monotonic() < deadline:
            time.sleep(0.01)
        assert processes.identity(process.pid) is None


def test_a_damaged_pid_file_is_no_process(pid_file):
    pid_file.write_text("12")
    assert processes.running(pid_file) is None
    pid_file.write_text("{")
    assert processes.running(pid_file) is None


def test_a_process_outlives_the_command_that_started_it(pid_file):
    code = (
        "import pathlib, sys; from lab import processes; path = pathlib.Path(sys.argv[1]);"
        "processes.start(path, ['sleep', '600'], path.parent / 'log')"
    )
    environment = processes.environment(processes.__file__.rsplit("/", 2)[0])
    subprocess.run([sys.executable, "-c", code, str(pid_file)], env=environment, check=True, timeout=600)
    assert processes.running(pid_file) is not None


def test_process_name_with_spaces_and_brackets(tmp_path, pid_file):
    program = tmp_path / "a) Z 1 (b"
    program.symlink_to("/bin/sleep")
    pid = start(pid_file, str(program), "600")
    assert processes.stat(pid)[0] != "Z"
    assert processes.running(pid_file) == pid


def test_a_process_that_does_not_end_is_named(pid_file, monkeypatch):
    pid = start(pid_file)
    monkeypatch.setattr(processes.os, "kill", lambda *_: None)
    with pytest.raises(LabError, match=f"process {pid} does not end"):
        processes.kill(pid_file, patience=0)
    monkeypatch.undo()
