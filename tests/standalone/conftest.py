# SPDX-License-Identifier: Apache-2.0
"""A user of Galaxy: an empty directory, ansible-core alone, the tarball, and nothing of this repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests import supervised

ROOT = Path(__file__).resolve().parents[2]
COLLECTION = ROOT / "collections" / "ansible_collections" / "heddle" / "ovn"
# What of this process's environment would lead Ansible or Python back to the repository.
OURS = ("ANSIBLE_", "HEDDLE_", "LAB_", "MOLECULE_", "PYTHON", "VIRTUAL_ENV", "XDG_")
_LONGEST = 3600


@dataclass(frozen=True)
class User:
    """A virtual environment, a home and a working directory of their own."""

    home: Path

    @property
    def directory(self) -> Path:
        """The current directory of all commands."""
        return self.home / "work"

    @property
    def python(self) -> Path:
        """The interpreter that has ansible-core and what it requires."""
        return self.home / "venv" / "bin" / "python"

    @property
    def installed(self) -> Path:
        """Where ansible-galaxy installs the collection by default."""
        return self.home / ".ansible" / "collections" / "ansible_collections" / "heddle" / "ovn"

    def run(self, *command: str, success: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command; stdout has both streams. With `success` its failure fails the test."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
        # The columns keep Ansible from breaking lines.
        environment = {**kept, "HOME": str(self.home), "ANSIBLE_NOCOLOR": "1", "COLUMNS": "1000"}
        done = supervised.run(command, cwd=self.directory, env=environment, timeout=_LONGEST)
        if success:
            assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-8000:]}"
        return done

    def ansible(self, program: str, *arguments: str, success: bool = True) -> str:
        """Run `ansible-PROGRAM` and return what it printed."""
        return self.run(str(self.python), "-m", "ansible", program, *arguments, success=success).stdout


def required_by(name: str) -> set[str]:
    """Return a distribution and all that it requires, as it is installed here."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        current = waiting.pop()
        if current in found:
            continue
        found.add(current)
        needed = [Requirement(text) for text in metadata.requires(current) or []]
        waiting += [one.name for one in needed if one.marker is None or one.marker.evaluate({"extra": ""})]
    return found


def link_packages(target: Path) -> None:
    """Make ansible-core and what it requires importable below a directory, and nothing else."""
    for name in required_by("ansible-core"):
        distribution = metadata.distribution(name)
        tops = {file.parts[0] for file in distribution.files or []} - {"..", "__pycache__"}
        for top in tops:
            if not (target / top).exists():
                (target / top).symlink_to(distribution.locate_file(top))


def new_user(home: Path, *, pip: bool) -> User:
    """Return a user with ansible-core, installed by pip or linked, and the collection from its tarball."""
    user = User(home)
    user.directory.mkdir(parents=True)
    venv.EnvBuilder(symlinks=True, with_pip=pip).create(home / "venv")
    if pip:
        pinned = f"ansible-core=={metadata.version('ansible-core')}"
        user.run(str(user.python), "-m", "pip", "install", "--quiet", pinned)
    else:
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        link_packages(home / "venv" / "lib" / version / "site-packages")
    source = home / "source"
    # As in a working tree: byte code of the tests that ran is among the sources.
    shutil.copytree(COLLECTION, source, ignore=shutil.ignore_patterns("output"))
    user.ansible("galaxy", "collection", "build", "--output-path", str(user.directory), str(source))
    shutil.rmtree(source)
    tarball = next(user.directory.glob("heddle-ovn-*.tar.gz"))
    user.ansible("galaxy", "collection", "install", "--offline", str(tarball))
    return user


@pytest.fixture(scope="session")
def user(tmp_path_factory: pytest.TempPathFactory) -> User:
    """The user whose packages are those of this environment."""
    return new_user(tmp_path_factory.mktemp("user"), pip=False)
