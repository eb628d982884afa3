# SPDX-License-Identifier: Apache-2.0
"""Processes that outlive the command that started them, and are found again by a pid file.

A pid alone may have been reused by another process. The file therefore also holds the boot of the machine and the start
time of the process, and a process counts only when all three agree.
"""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import time

from lab.errors import LabError

BOOT_ID = pathlib.Path("/proc/sys/kernel/random/boot_id")
# Seconds that a killed process may take to end: the kernel frees its memory meanwhile, on a busy machine slowly.
PATIENCE = 120


def stat(pid):
    """State letter, parent and start time of a process, or None when there is no such process."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text.rpartition(")")[2].split()
    return fields[0], int(fields[1]), int(fields[19])


def identity(pid):
    """What distinguishes this process from every other one, or None when it has ended."""
    found = stat(pid)
    if found is None or found[0] in "ZX":
        return None
    return {"pid": pid, "started": found[2], "boot": BOOT_ID.read_text().strip()}


def start(pid_file, argv, log, **options):
    """Start a process in a session of its own, with nothing of ours open, and write its pid file."""
    with open(log, "ab") as stream:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            cwd="/",
            start_new_session=True,
            close_fds=True,
            **options,
        )
    found = identity(process.pid)
    if found is None:
        process.wait()
        raise LabError(f"{argv[0]} ended at once with {process.returncode}", f"read {log}")
    temporary = pid_file.with_suffix(".new")
    temporary.write_text(json.dumps(found))
    temporary.rename(pid_file)
    # Not reaped here: the process belongs to the lab, not to this command.
    process.returncode = 0
    return process.pid


def environment(project):
    """The environment in which a process finds this package."""
    return {**os.environ, "PYTHONPATH": str(project), "PYTHONUNBUFFERED": "1"}


def running(pid_file):
    """The pid of the process that wrote this file, or None when it has ended."""
    try:
        recorded = json.loads(pid_file.read_text())
        pid = recorded["pid"]
    except (FileNotFoundError, json.JSONDecodeError, KeyError, TypeError):
        return None
    return pid if identity(pid) == recorded else None


def descendants(pid):
    """Children of a process and theirs, parents before their children."""
    children = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            found = stat(int(entry))
            if found:
                children.setdefault(found[1], []).append(int(entry))
    found, queue = [], [pid]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += below
    return found


def kill(pid_file, patience=PATIENCE):
    """Kill a process and its descendants, and remove its pid file."""
    pid = running(pid_file)
    if pid is not None:
        end([pid], patience)
    pid_file.unlink(missing_ok=True)


def end(pids, patience=PATIENCE):
    """Kill processes and their descendants, and wait until they have ended."""
    # Parents first: a supervisor must not start another child.
    victims = [(victim, identity(victim)) for pid in pids for victim in [pid, *descendants(pid)]]
    for victim, known in victims:
        if known and identity(victim) == known:
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
    deadline = time.monotonic() + patience
    while remaining := [victim for victim, known in victims if known and identity(victim) == known]:
        if time.monotonic() > deadline:
            pid = remaining[0]
            raise LabError(f"process {pid} does not end", f"look at /proc/{pid}/stack, then repeat the command")
        time.sleep(0.02)
    for pid in pids:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def wait_end(pid_file, patience=30):
    """Wait until a process that was signalled has ended."""
    deadline = time.monotonic() + patience
    while running(pid_file) is not None and time.monotonic() < deadline:
        time.sleep(0.02)
