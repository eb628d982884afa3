# SPDX-License-Identifier: Apache-2.0
"""Programs of the host that the engines run: an argument vector, text in, text out, no shell."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable

TIMEOUT = 60.0
# (argument vector, standard input) -> standard output; raises `ProgramError`.
Run = Callable[[list[str], str], str]


class ProgramError(Exception):
    """A program failed, was too slow or is not there; `stderr` is what it said."""

    def __init__(self, name: str, stderr: str) -> None:
        self.stderr = stderr.strip()
        super().__init__(f"{name}: {self.stderr}")


class NotInstalled(ProgramError):
    """A program is not there."""


def run(argv: list[str], text: str = "") -> str:
    """Run a program to its end and return what it printed."""
    environment = {**os.environ, "LC_ALL": "C", "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"}
    try:
        done = subprocess.run(
            argv, input=text, capture_output=True, text=True, timeout=TIMEOUT, check=False, env=environment
        )
    except FileNotFoundError:
        raise NotInstalled(argv[0], "is not installed on this host; run playbooks/install.yml") from None
    except subprocess.TimeoutExpired:
        raise ProgramError(argv[0], f"did not end within {TIMEOUT:g} s") from None
    if done.returncode != 0:
        raise ProgramError(argv[0], done.stderr or f"ended with status {done.returncode}")
    return done.stdout
