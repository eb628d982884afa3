# SPDX-License-Identifier: Apache-2.0
"""Which services run with former files: a run that was cut off may have written files and restarted nothing.

What a service was started with is not recorded anywhere, so the times decide: those of its files and of its start.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping, Sequence

from ..errors import ProgramError
from ..processes import subprocesses

# The last two are microseconds of CLOCK_MONOTONIC, 0 for none; timers and sockets have no main process.
# org.freedesktop.systemd1(5).
_PROPERTIES = (
    "LoadState",
    "ActiveState",
    "NeedDaemonReload",
    "ExecMainStartTimestampMonotonic",
    "ActiveEnterTimestampMonotonic",
)
_RUNNING = ("active", "activating", "reloading")


def outdated_services(
    services: Mapping[str, Sequence[str]], written: Collection[str] = (), run: subprocesses.Run = subprocesses.run
) -> list[str]:
    """Return those of the services, absolute paths of files by unit, that have to be restarted for their files.

    These are running ones of which a file was written or is newer than their start, and all of which systemd has not
    read the unit since it changed. Where systemd does not run there are none.
    """
    if not services:
        return []
    argv = ["systemctl", "show", f"--property={','.join(_PROPERTIES)}", "--", *map(full_name, services)]
    try:
        blocks = run(argv, "").strip("\n").split("\n\n")
    except ProgramError:
        return []
    found = []
    for (service, paths), block in zip(services.items(), blocks, strict=True):
        properties = dict(line.partition("=")[::2] for line in block.splitlines())
        if properties["LoadState"] == "not-found":
            continue
        if properties["NeedDaemonReload"] == "yes" or (
            properties["ActiveState"] in _RUNNING and _is_older(_start(properties), paths, written)
        ):
            found.append(service)
    return found


def full_name(unit: str) -> str:
    """Return the name of a unit with its suffix; without one it is a service."""
    return unit if unit.endswith((".timer", ".socket")) else f"{unit}.service"


def _start(properties: Mapping[str, str]) -> float:
    """Return when a unit was started, in seconds since the epoch."""
    monotonic = int(properties.get("ExecMainStartTimestampMonotonic") or 0) or int(
        properties["ActiveEnterTimestampMonotonic"]
    )
    return time.time() - time.monotonic() + monotonic / 1e6


def _is_older(start: float, paths: Sequence[str], written: Collection[str]) -> bool:
    """Return whether files were changed after a start.

    By the time of the last change of the inode, since a file that was transferred may have the other one of its source.
    A time in the future says nothing: the clock was set back.
    """
    for path in paths:
        if path in written:
            return True
        try:
            changed = os.stat(path).st_ctime
        except OSError:
            continue
        if start < changed <= time.time():
            return True
    return False
