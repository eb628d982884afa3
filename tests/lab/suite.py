# SPDX-License-Identifier: Apache-2.0
"""Runs test files in a guest of User Mode Linux, whose kernel has what this machine's may lack."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from lab import guest
from lab.config import PROJECT

# Seconds; such a run takes some. Only one that hangs reaches it.
LIMIT = 1800
# pytest and what it needs.
_DISTRIBUTIONS = ("pytest", "pluggy", "iniconfig", "packaging", "pygments")
_PARTS = ("collections/ansible_collections/heddle/ovn/plugins", "tests", "pyproject.toml")
_COMMAND = (
    "{preload}HOME=/tmp PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=/suite/packages "
    "python3 -m pytest -p no:cacheprovider --color=no -rA -v {files}"
)


@dataclass(frozen=True)
class Report:
    """What tests printed, and the outcome of each by its name."""

    console: str
    outcomes: dict[str, str]


def run_in_guest(
    kernel, image, files: list[str], scratch: Path, *, limit: float = LIMIT, seen=None, preload: Path | None = None
) -> Report:
    """Run test files (relative to the project) in a guest with the image's programs, as root of that guest.

    It has `limit` seconds. `seen` is called with its process id and each line of its console. `preload` is a library
    that all programs load.
    """
    tree = scratch / "suite"
    for part in _PARTS:
        _copy(PROJECT / part, tree / part)
    for name in _DISTRIBUTIONS:
        for path in metadata.files(name) or ():
            if ".." not in path.parts and path.suffix != ".pyc":
                _copy(Path(path.locate()), tree / "packages" / path)
    if preload:
        _copy(preload, tree / "preload.so")
    variable = "LD_PRELOAD=/suite/preload.so " if preload else ""
    (tree / "command").write_text(_COMMAND.format(preload=variable, files=" ".join(files)) + "\n")
    disk = scratch / "suite.squashfs"
    subprocess.run(
        ["mksquashfs", tree, disk, "-quiet", "-no-progress", "-noappend", "-comp", "lz4"],
        check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    initramfs = scratch / "initramfs"
    guest.write_initramfs(kernel, "suite", {}, initramfs)
    argv = [*guest.arguments(kernel, image, "guest", initramfs, f"r:{image.disk}", scratch), f"ubd2rc={disk}"]
    console, ended = guest.run(argv, guest.memory_directory(1), limit, seen)
    assert ended and "suite-done" in console, console[-4000:]
    console = console.replace("\r", "")
    found = re.findall(r"(?m)^(\S+::\S+) (PASSED|FAILED|ERROR|SKIPPED)", console)
    return Report(console, dict(found))


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, target)
