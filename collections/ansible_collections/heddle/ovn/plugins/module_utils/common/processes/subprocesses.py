# SPDX-License-Identifier: Apache-2.0
"""Runs programs of the host: an argument vector, text in, text out, no shell."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable

from ..errors import NotInstalled, ProgramError

# Seconds after which a program is considered hung: dumping the flows of many networks takes long on slow hosts.
TIMEOUT = 600.0
# (argument vector, standard input) -> standard output; raises `ProgramError`.
Run = Callable[[list[str], str], str]


def run(argv: list[str], text: str = "") -> str:
    """Run a program and return its output."""
    environment = {**os.environ, "LC_ALL": "C", "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"}
    try:
        done = subprocess.run(
            argv, input=text, capture_output=True, text=True, timeout=TIMEOUT, check=False, env=environment,
            # A program prints names as they are, such as those of links and aliases, and they may have any bytes.
            errors="replace",
        )  # fmt: skip
    except FileNotFoundError:
        raise NotInstalled(argv[0], "is not installed on this host; run heddle.ovn.install") from None
    except subprocess.TimeoutExpired:
        raise ProgramError(argv[0], f"did not end within {TIMEOUT:g} s") from None
    if done.returncode != 0:
        raise ProgramError(argv[0], done.stderr or f"ended with status {done.returncode}")
    return done.stdout
