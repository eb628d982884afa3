# SPDX-License-Identifier: Apache-2.0
"""`make setup` reports in one line why it failed and the remedy, and leaves no incomplete environment."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[3]
CLOSED = "http://127.0.0.1:9/simple"


def copy_project(target: Path) -> Path:
    """What setup needs of a clone."""
    (target / "scripts").mkdir(parents=True)
    for name in ("scripts/setup", "requirements.txt", "requirements-test.txt"):
        shutil.copy(PROJECT / name, target / name)
    return target


@pytest.fixture
def clone(tmp_path):
    return copy_project(tmp_path / "clone")


@pytest.fixture
def programs(tmp_path):
    """A function that puts a script before all other programs."""
    folder = tmp_path / "programs"
    folder.mkdir()

    def add(name, script):
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)

    # The Python of these tests is there in any case.
    add("python3", f'exec {sys.executable} "$@"')
    return add


def setup(clone, tmp_path, **environment):
    """Run it; return its exit code and the lines of its standard error."""
    path = f"{tmp_path / 'programs'}:{os.environ['PATH']}"
    ours = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    unreachable = {"PIP_CONFIG_FILE": "/dev/null", "PIP_INDEX_URL": CLOSED, "PIP_RETRIES": "0"}
    done = subprocess.run(
        [str(clone / "scripts/setup")],
        env={**ours, **unreachable, "PATH": path, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr.splitlines()


@pytest.mark.long
@pytest.mark.usefixtures("programs")
def test_unreachable_index(clone, tmp_path):
    code, (line,) = setup(clone, tmp_path)
    assert code == 1
    assert line.startswith("setup: cannot install the requirements: ERROR: ")
    assert "check that pip reaches its index" in line
    assert not (clone / ".venv").exists()


@pytest.mark.parametrize("said", ["E: Unable to locate package python3-venv", "cannot be run"])
def test_unreachable_mirror(clone, tmp_path, programs, said):
    programs("python3", "exit 1")
    programs("sudo", 'exec "$@"')
    programs("apt-get", f"echo 'Reading package lists...'; echo '{said}' >&2; exit 100")
    code, (line,) = setup(clone, tmp_path)
    assert code == 1
    assert line == (
        f"setup: cannot install python3-venv: {said}; "
        "check that apt reaches its mirror (apt-get update), then run it again"
    )


def test_a_python_that_is_too_old_after_the_installation(clone, tmp_path, programs):
    programs("python3", '[ "$1" = --version ] && echo Python 3.9.2; exit 1')
    programs("sudo", 'exec "$@"')
    programs("apt-get", "exit 0")
    code, (line,) = setup(clone, tmp_path)
    assert code == 1
    assert "is Python 3.9.2 and 3.11 or later with venv is needed; use Debian 12 or 13" in line


@pytest.mark.skipif(os.geteuid() != 0, reason="a full disk of its own needs root")
@pytest.mark.usefixtures("programs")
def test_a_disk_that_is_full(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "disk", disk], check=True)
    try:
        clone = copy_project(disk / "clone")
        code, (line,) = setup(clone, tmp_path)
        assert code == 1
        assert line.startswith(f"setup: {clone} has ")
        assert line.endswith(" MB left and the virtual environment takes 1000 MB; make room, then run it again")
        assert not (clone / ".venv").exists()
    finally:
        subprocess.run(["umount", disk], check=True)


def test_existing_environment_is_not_changed(clone, tmp_path):
    (clone / ".venv").mkdir()
    texts = [(clone / name).read_bytes() for name in ("requirements.txt", "requirements-test.txt")]
    (clone / ".venv/heddle-stamp").write_text(hashlib.sha256(b"".join(texts)).hexdigest()[:16])
    assert setup(clone, tmp_path) == (0, [])


@pytest.mark.usefixtures("programs")
def test_environment_of_other_requirements_is_replaced(clone, tmp_path):
    """make has it first in the path, and it is removed before the new one is made."""
    binaries = clone / ".venv/bin"
    binaries.mkdir(parents=True)
    (clone / ".venv/heddle-stamp").write_text("of other requirements\n")
    (binaries / "python3").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (binaries / "python3").chmod(0o755)
    path = f"{binaries}:{tmp_path / 'programs'}:{os.environ['PATH']}"
    code, (line,) = setup(clone, tmp_path, PATH=path)
    assert code == 1
    assert line.startswith("setup: cannot install the requirements: ERROR: ")
    assert "check that pip reaches its index" in line
    assert not (clone / ".venv").exists()
