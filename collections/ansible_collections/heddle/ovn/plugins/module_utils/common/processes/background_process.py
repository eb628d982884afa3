# SPDX-License-Identifier: Apache-2.0
"""Runs a daemon that is independent of its parent, and identifies it again by process id and start time."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Collection

from ..sockets.readable import readable

# A process may have results to write, and a busy host, or one that was paused, runs it late.
STOP_SECONDS = 60.0
# Where the kernel groups processes by session, it compares the groups, not the processes in them (sched(7)).
_GROUP = "/proc/self/autogroup"


def spawn(work: Callable[[], None], on_end: Callable, keep: Collection[int] = ()) -> int:
    """Start a process that does `work` and return its id; `on_end` is its handler of SIGTERM. OSError if it fails.

    Of the descriptors that are open, it has those of `keep` only.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            _detached(work, on_end, writer, {*keep, writer})
            status = 0
        finally:
            os._exit(status)
    os.close(writer)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(child, 0)
    with os.fdopen(reader, encoding="ascii") as started:
        text = started.read()
    if not text:
        raise OSError("the process did not start")
    return int(text)


def _detached(work: Callable[[], None], on_end: Callable, writer: int, keep: set[int]) -> None:
    """In the first child: start a new session and fork again, so that no parent has to wait for the process."""
    os.setsid()
    if os.fork():
        return
    os.chdir("/")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nowhere, number)
    for number in map(int, os.listdir("/proc/self/fd")):
        if number > 2 and number not in keep:
            with contextlib.suppress(OSError):
                os.close(number)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGALRM):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, on_end)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    # The parent may end this process as soon as it reads the id, so everything is ready before it is written.
    os.write(writer, str(os.getpid()).encode())
    os.close(writer)
    work()


def prioritise(nice: int) -> None:
    """Set the nice value of this process, which `spawn` started (sched(7)). OSError: it lacks the right."""
    os.setpriority(os.PRIO_PROCESS, 0, nice)
    # Not every kernel has groups.
    with contextlib.suppress(FileNotFoundError), open(_GROUP, "w", encoding="ascii") as group:
        group.write(str(nice))


def began(process: int) -> str | None:
    """Return when a process began, in the kernel's ticks (proc(5), `starttime`); None when it has ended."""
    try:
        # The name of a program may have any bytes.
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


def is_running(process: int, since: str | None) -> bool:
    """Say whether the process with this id and start time runs.

    One that ended before its start time was read has none, and does not.
    """
    return since is not None and began(process) == since


def end(process: int, since: str | None) -> None:
    """End the process with this id and start time, and wait for its end."""
    try:
        handle = os.pidfd_open(process)
    except OSError:
        return
    try:
        # From here on the handle refers to this process; check that it is still the right one.
        if not is_running(process, since):
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            signal.pidfd_send_signal(handle, number)
            if readable([handle], STOP_SECONDS):
                return
    except ProcessLookupError:
        return
    finally:
        os.close(handle)
