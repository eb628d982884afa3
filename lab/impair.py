# SPDX-License-Identifier: Apache-2.0
"""Make hosts slow and links lossy, to show that no verdict depends on either.

A host is slowed by a limit of processor time on all its processes (cgroup v2 `cpu.max`, or the cpu controller of v1
where that is mounted), and paused by SIGSTOP. Both work for every driver, since each host is a tree of processes.
"""

import contextlib
import os
import signal
from pathlib import Path

from lab import processes
from lab.errors import LabError

CGROUPS = Path("/sys/fs/cgroup")
# Microseconds. A short period makes the limit even: a host never stands still for long.
PERIOD = 20_000


def pids(pid_file):
    """The processes of a host, the first one before its children."""
    first = processes.running(pid_file)
    return [] if first is None else [first, *processes.descendants(first)]


def throttle(group, members, percent):
    """Limit processes, and all that they start from now on, to so many percent of one processor; None lifts it.

    LabError: the machine's cgroups do not allow it.
    """
    try:
        directory, limit = _group(group, percent)
        for pid in members:
            with contextlib.suppress(ProcessLookupError):
                (directory / "cgroup.procs").write_text(str(pid))
        limit()
    except OSError as error:
        raise LabError(
            f"this machine's cgroups refuse a limit of processor time: {error}",
            "run as root on a machine with the cpu controller",
        ) from error


def _group(name, percent):
    quota = None if percent is None else max(1000, PERIOD * percent // 100)
    if (CGROUPS / "cpu").is_dir():
        # One group for all that was ever limited: a process that is moved back would need to know from where.
        directory = CGROUPS / "cpu" / name
        directory.mkdir(exist_ok=True)
        (directory / "cpu.cfs_period_us").write_text(str(PERIOD))
        return directory, lambda: (directory / "cpu.cfs_quota_us").write_text(str(-1 if quota is None else quota))
    directory = CGROUPS / name
    if "cpu" not in (CGROUPS / "cgroup.subtree_control").read_text().split():
        (CGROUPS / "cgroup.subtree_control").write_text("+cpu")
    directory.mkdir(exist_ok=True)
    return directory, lambda: (directory / "cpu.max").write_text(f"{'max' if quota is None else quota} {PERIOD}")


def remove(group):
    """Remove the group of a host whose processes have ended."""
    for directory in (CGROUPS / "cpu" / group, CGROUPS / group):
        with contextlib.suppress(OSError):
            directory.rmdir()


def pause(members, paused):
    """Stop processes, or let them run again. Parents are stopped first, so that they start no more."""
    for pid in members if paused else reversed(members):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP if paused else signal.SIGCONT)
