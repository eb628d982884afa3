# SPDX-License-Identifier: Apache-2.0
"""Waiting for a daemon of this host: for as long as it works, not for as long as it takes on a fast machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from ..common.polling import attempts
from .control_socket import folder_of

# A daemon that is idle uses less than this share of a processor, also with a large database.
_IDLE = 0.01
# So one that computes without an end is reported in the end.
_MOST_PERIODS = 10


def attempts_while_working(timeout: float, used: Callable[[], float | None], longest: float) -> Iterator[None]:
    """Yield as `polling.attempts` for `timeout` seconds, and again while a process worked in the seconds before.

    `used` returns the processor seconds that it has used so far, None when it does not run.
    """
    for _period in range(_MOST_PERIODS):
        before = used()
        yield from attempts(timeout, shortest=0.005, longest=longest)
        after = used()
        if before is None or after is None or abs(after - before) <= _IDLE * timeout:
            return


def processor_seconds(daemon: str) -> float | None:
    """Return the processor seconds that a daemon of this host has used (proc_pid_stat(5)); None without a process."""
    try:
        with open(f"{folder_of(daemon)}/{daemon}.pid", encoding="ascii") as file:
            process = int(file.read())
        # The name of a program may have any bytes.
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except (OSError, ValueError):
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
