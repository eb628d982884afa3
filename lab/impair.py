# SPDX-License-Identifier: Apache-2.0
"""Make hosts slow and links lossy, to show that no result depends on either.

A host is slowed by a limit of processor time on all its processes (cgroup v2 `cpu.max`, or the cpu controller of v1
where that is mounted), and paused by SIGSTOP. Both work for every driver, since each host is a tree of processes.
Frames are lost on the lab's segments: by nftables on the bridges of containers, by the lab's switch elsewhere.
"""

import contextlib
import itertools
import os
import signal
import time
from pathlib import Path

from lab import processes
from lab.config import INTERFACES, SEGMENTS, host_named
from lab.errors import LabError

CGROUPS = Path("/sys/fs/cgroup")
# Microseconds. A short period makes the limit even: a host is never stopped for long.
PERIOD = 20_000
PATIENCE = 60
# Bytes of an IPv4 packet.
LARGEST = 65535
# How often the removal of a group is tried, and the seconds between: its processes may not have left it yet.
REMOVALS, REMOVAL_INTERVAL = 100, 0.05


def percent_of(text):
    """The limit of `throttle` as a number, None for off."""
    if text == "off":
        return None
    if not text.isdecimal() or not 1 <= int(text) <= 100:
        raise LabError(f"{text!r} is no limit of processor time", "write a whole number from 1 to 100, or off")
    return int(text)


def loss_of(text):
    """The percentage of `lose` as a number."""
    with contextlib.suppress(ValueError):
        if 0 <= float(text) <= 100:
            return float(text)
    raise LabError(f"--loss {text} is no percentage", "write a number from 0 to 100")


def blackhole_of(words):
    """(host, host, bytes) of `lose`, None without."""
    if words is None:
        return None
    one, other, size = words
    if host_named(one) == host_named(other):
        raise LabError(f"--blackhole has {one} twice", "name two hosts")
    if not size.isdecimal() or not 1 <= int(size) <= LARGEST:
        raise LabError(f"--blackhole {size} is no size of a packet", f"write whole bytes from 1 to {LARGEST}")
    return one, other, int(size)


def pids(pid_file):
    """The processes of a host, the first one before its children."""
    first = processes.running(pid_file)
    return [] if first is None else [first, *processes.descendants(first)]


def can_throttle():
    """Does this machine have the cpu controller, in either version of cgroups?"""
    controllers = CGROUPS / "cgroup.controllers"
    return (CGROUPS / "cpu").is_dir() or (controllers.is_file() and "cpu" in controllers.read_text().split())


def throttle(group, members, percent):
    """Limit processes, and all that they start from now on, to so many percent of one processor; None lifts it.

    `group` is a cgroup below the machine's root. Processes that it holds stay where they are: a container has groups
    below it. LabError: the machine's cgroups do not allow it.
    """
    quota = None if percent is None else max(1000, PERIOD * percent // 100)
    if not can_throttle():
        raise LabError("this machine's cgroups have no cpu controller", "mount it, or leave throttle out")
    try:
        directory = (CGROUPS / "cpu" if (CGROUPS / "cpu").is_dir() else CGROUPS) / group
        directory.mkdir(parents=True, exist_ok=True)
        if (CGROUPS / "cpu").is_dir():
            (directory / "cpu.cfs_period_us").write_text(str(PERIOD))
            (directory / "cpu.cfs_quota_us").write_text(str(-1 if quota is None else quota))
        else:
            for parent in reversed(directory.relative_to(CGROUPS).parents):
                (CGROUPS / parent / "cgroup.subtree_control").write_text("+cpu")
            (directory / "cpu.max").write_text(f"{'max' if quota is None else quota} {PERIOD}")
        # A host that was started again has new processes, and perhaps the group of the former ones.
        for pid in sorted(set(members) - held(directory)):
            with contextlib.suppress(ProcessLookupError):
                (directory / "cgroup.procs").write_text(str(pid))
    except OSError as error:
        raise LabError(
            f"this machine's cgroups refuse a limit of processor time: {error}",
            "run as root on a machine with the cpu controller",
        ) from error


def held(directory):
    """The processes in a group and in those below it."""
    found = set()
    for path in directory.rglob("cgroup.procs"):
        with contextlib.suppress(OSError):  # a group that was removed meanwhile
            found.update(map(int, path.read_text().split()))
    return found


def remove(group):
    """Remove the group of a host whose processes are killed, and its parent with the last one.

    A killed process leaves its group some time after it has ended for its parent. Returns what cannot be removed, as
    texts with the path and the reason.
    """
    stays = []
    for directory in (CGROUPS / "cpu" / group, CGROUPS / group):
        for poll in range(REMOVALS):
            try:
                if directory.is_dir():
                    directory.rmdir()
                break
            except OSError as error:
                if poll == REMOVALS - 1:
                    stays.append(f"{directory} ({error.strerror})")
            time.sleep(REMOVAL_INTERVAL)
        with contextlib.suppress(OSError):  # other hosts have groups there
            directory.parent.rmdir()
    return stays


def pause(members, paused):
    """Stop processes, or let them run again; when this returns, they have stopped.

    Parents are stopped first, so that they start no more.
    """
    for pid in members if paused else reversed(members):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP if paused else signal.SIGCONT)
    # A process in the kernel stops when it leaves it.
    deadline = time.monotonic() + PATIENCE
    while paused and any(found and found[0] not in "TtZX" for found in map(processes.stat, members)):
        if time.monotonic() > deadline:
            raise LabError("a process does not stop", "repeat the command, or look at it with ps")
        time.sleep(0.01)


def rules(loss, blackhole):
    """The nftables table of lossy bridges; `blackhole` is (from, to, bytes): larger frames between the two are lost."""
    lines = [f"numgen random mod 1000 < {round(10 * loss)} drop"] if loss else []
    if blackhole:
        source, target, size = blackhole
        for (one, other), segment in itertools.product(((source, target), (target, source)), SEGMENTS[1:]):
            ends = f'iifname "{one}-{INTERFACES[segment]}" oifname "{other}-{INTERFACES[segment]}"'
            # `meta length` counts the packet without its Ethernet header.
            lines.append(f"{ends} meta length > {size} drop")
    table = "table bridge heddle_lab"
    chain = "chain forward { type filter hook forward priority 0; policy accept; " + "; ".join(lines) + "; }"
    return f"{table} {{}}\ndelete {table}\n" + (f"{table} {{ {chain}; }}\n" if lines else "")
