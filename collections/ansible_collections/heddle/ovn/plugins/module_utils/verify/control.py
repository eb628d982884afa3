# SPDX-License-Identifier: Apache-2.0
"""Start and stop a host's responder: there is one at most, and it is known by more than its process id."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal

from ..document import digest
from .listening import Listener, open_listeners
from .responder import spawn

DIRECTORY = "/run/heddle"
STOP_SECONDS = 5.0


class Responder:
    """The responder of this host. What is known of it is kept in `directory`."""

    def __init__(self, directory: str = DIRECTORY) -> None:
        self.directory = directory
        self.state_file = os.path.join(directory, "responder.json")
        self.heard_file = os.path.join(directory, "responder-heard.json")

    def start(self, wanted: list[Listener], port: int, lifetime: float, *, write: bool) -> tuple[bool, list[str]]:
        """Have a responder for exactly these addresses; returns whether one had to be started, and its problems.

        One that runs for the same addresses in the same namespaces is left alone.
        """
        fingerprint = digest([port, [_identity(listener) for listener in wanted]])
        state = self._running()
        if state and state["fingerprint"] == fingerprint:
            return False, state["problems"]
        if not write:
            return True, []
        self.stop(write=True)
        sockets, problems = open_listeners(wanted, port)
        os.makedirs(self.directory, mode=0o755, exist_ok=True)
        process = spawn(sockets, lifetime, self.heard_file)
        state = {"pid": process, "began": _began(process), "fingerprint": fingerprint, "problems": problems}
        with open(self.state_file, "w", encoding="utf-8") as file:
            json.dump(state, file)
        return True, problems

    def stop(self, *, write: bool) -> tuple[bool, list[list[str]]]:
        """Stop the responder; returns whether there was one, and what it heard."""
        state = self._running()
        if not write:
            return state is not None, []
        if state:
            _end(state)
        heard = []
        with contextlib.suppress(OSError, ValueError), open(self.heard_file, encoding="utf-8") as file:
            heard = json.load(file)
        for path in (self.state_file, self.heard_file):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        return state is not None, heard

    def _running(self) -> dict | None:
        try:
            with open(self.state_file, encoding="utf-8") as file:
                state = json.load(file)
        except (OSError, ValueError):
            return None
        began = _began(state["pid"])
        return state if began and began == state["began"] else None


def _identity(listener: Listener) -> list:
    """A namespace that was made anew has the same name and another inode; sockets stay behind in the old one."""
    try:
        inode = os.stat(f"/var/run/netns/{listener.namespace}").st_ino
    except OSError:
        inode = 0
    return [listener.workload, listener.network, listener.address, inode]


def _began(process: int) -> str | None:
    """Return when a process began, in the kernel's ticks (proc(5), `starttime`); None when it has ended."""
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


def _end(state: dict) -> None:
    try:
        handle = os.pidfd_open(state["pid"])
    except OSError:
        return
    try:
        # From here on the handle means this process; it must still be the one that we know.
        if _began(state["pid"]) != state["began"]:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            signal.pidfd_send_signal(handle, number)
            if select.select([handle], [], [], STOP_SECONDS)[0]:
                return
    except ProcessLookupError:
        return
    finally:
        os.close(handle)
