# SPDX-License-Identifier: Apache-2.0
"""A fresh system gets nothing of this machine besides access to the package registries, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import time
from collections import namedtuple
from pathlib import Path

import pytest

from lab import processes
from lab.config import Lab
from lab.errors import LabError
from scripts import fresh_system


def test_pip_gets_the_index_without_local_directories():
    listed = "\n".join(
        [
            ":env:.cert='/etc/ca.pem'",
            ":env:.find-links='/srv/wheels'",
            "global.index-url='https://index.example/simple'",
            "global.extra-index-url='\\nfile:///srv/simple\\nhttps://more.example/simple'",
            "global.target='/srv/packages'",
            "install.user='true'",
        ]
    )
    assert fresh_system.pip_settings(listed) == {
        "cert": "/etc/ca.pem",
        "index-url": "https://index.example/simple",
        "extra-index-url": "https://more.example/simple",
    }


def test_pip_keeps_its_own_index_where_only_directories_are_configured():
    assert fresh_system.pip_settings("global.extra-index-url='file:///srv/simple'") == {}


def test_the_environment_is_that_of_a_login_with_this_machine_s_proxies():
    ours = {"PATH": "/opt/bin", "PYTHONPATH": "/opt", "HOME": "/home/me", "https_proxy": "p", "PIP_CERT": "c"}
    assert fresh_system.environment(ours) == {**fresh_system.CLEAN, "https_proxy": "p"}


def test_too_little_room_is_one_line_with_a_remedy(monkeypatch, tmp_path):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(fresh_system.shutil, "disk_usage", lambda _path: usage(10, 9, 1))
    with pytest.raises(LabError, match=r"GB left.*set TMPDIR") as failed, fresh_system.place():
        pass
    assert "\n" not in str(failed.value)
    assert list(tmp_path.iterdir()) == []


def test_leftover_of_a_killed_run_is_removed_and_a_running_one_is_not(monkeypatch, tmp_path):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    for name in ("heddle-fresh-killed", "heddle-fresh-running", "other"):
        (tmp_path / name / "root").mkdir(parents=True)
        (tmp_path / name / "lock").touch()
    with open(tmp_path / "heddle-fresh-running" / "lock") as running:
        fcntl.flock(running, fcntl.LOCK_EX)
        with fresh_system.place() as own:
            found = {path.name for path in tmp_path.iterdir()}
    assert found == {"heddle-fresh-running", "other", own.name}
    assert {path.name for path in tmp_path.iterdir()} == {"heddle-fresh-running", "other"}


BUSYBOX = Path("/bin/busybox")


@pytest.fixture
def make_system(monkeypatch, tmp_path):
    """A function that makes a system whose programs are busybox instead of Debian's."""
    if os.geteuid() != 0:
        pytest.skip("a root of its own needs root")
    if not BUSYBOX.exists():
        pytest.skip("busybox-static is missing; `make lab` installs it")

    def bootstrap(_release, root):
        for name in ("bin", "usr/bin", "etc", "proc", "sys", "dev", "mnt", "root"):
            (root / name).mkdir(parents=True)
        shutil.copy(BUSYBOX, root / "bin/busybox")
        for name in ("bin/hostname", "bin/rmdir", "bin/sh", "bin/umount", "usr/bin/env"):
            (root / name).symlink_to("/bin/busybox")
        (root / "bin/bash").write_text('#!/bin/sh\nexec /bin/sh "$@"\n')
        (root / "bin/bash").chmod(0o755)

    monkeypatch.setattr(fresh_system, "bootstrap", bootstrap)
    monkeypatch.setattr(fresh_system, "connect", lambda _root: None)
    project, shared = tmp_path / "project", tmp_path / "shared"
    subprocess.run(["git", "init", "--quiet", project], check=True)
    shared.mkdir()
    (shared / "kept").touch()
    directory = tmp_path / "system"
    directory.mkdir()
    return lambda: fresh_system.System("trixie", directory, project, {shared: "/root/shared"})


def run(system, script):
    return subprocess.run(system.command("sh", "-c", script), capture_output=True, text=True, check=True).stdout


def mounts_below(directory):
    return [line for line in Path("/proc/self/mounts").read_text().splitlines() if str(directory) in line]


def test_system_is_isolated_from_this_machine(make_system, tmp_path, monkeypatch):
    monkeypatch.setenv("HEDDLE_TEST_SECRET", "secret")
    system = make_system()
    try:
        assert run(system, "busybox ls /").split() == ["bin", "dev", "etc", "mnt", "proc", "root", "sys", "usr"]
        assert str(tmp_path) not in run(system, "busybox cut -d ' ' -f 2 /proc/mounts")
        assert "secret" not in run(system, "busybox env")
        assert run(system, "busybox ls /root/shared").split() == ["kept"]
        assert run(system, "pwd").strip() == system.clone
        assert mounts_below(tmp_path) == []
    finally:
        system.close()


def leave_something_running(system):
    run(system, "busybox setsid busybox sleep 600 > /dev/null 2>&1 &")


def processes_in(root):
    """Processes whose root directory that is."""
    found = []
    for path in Path("/proc").glob("[0-9]*/root"):
        with contextlib.suppress(OSError):
            if path.samefile(root) and processes.identity(int(path.parent.name)):
                found.append(int(path.parent.name))
    return found


def test_system_processes_end_with_it(make_system, tmp_path):
    system = make_system()
    leave_something_running(system)
    key = Lab(f"{system.clone}/.lab").key
    run(system, f"busybox mkdir -p /sys/fs/cgroup/heddle-lab-{key}/node1")
    assert len(processes_in(system.root)) >= 2
    system.close()
    assert processes_in(system.root) == []
    shutil.rmtree(system.root)
    assert (tmp_path / "shared/kept").exists()
    system = make_system()
    try:
        assert f"heddle-lab-{key}" not in run(system, "busybox ls /sys/fs/cgroup")
    finally:
        system.close()


def test_system_processes_end_when_the_program_is_killed(make_system, tmp_path):
    child = os.fork()
    if child == 0:
        try:
            leave_something_running(make_system())
            os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    root = tmp_path / "system" / "root"
    deadline = time.monotonic() + 600
    while processes_in(root) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert processes_in(root) == []
    assert mounts_below(tmp_path) == []
