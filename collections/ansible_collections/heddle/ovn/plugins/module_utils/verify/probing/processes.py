# SPDX-License-Identifier: Apache-2.0
"""Starts and stops the responder of a host: at most one, identified by process id and start time."""

from __future__ import annotations

import contextlib
import json
import os

from ...common.files.json_file import read_json
from ...common.processes.background_process import began, end, is_running
from ...common.serialization import digest
from .listening import Listener, open_listeners
from .responder import spawn

DIRECTORY = "/run/heddle"
# Without its record it is unknown whether packets arrived that must not, so silence proves no isolation.
_NO_RECORD = (
    "the responder ended without its record of received packets, so isolation of what is on this host is not tested; "
    "see whether the host was restarted, paused or out of memory, then run heddle.ovn.verify again"
)
_TOO_EARLY = (
    "the responder ended before it was stopped, after {lifetime:g} s, so isolation of what is on this host is not "
    "tested; run heddle.ovn.verify again with a larger heddle_verify_lifetime"
)


class Responder:
    """The responder of this host. Its state is stored in `directory`."""

    def __init__(self, directory: str = DIRECTORY) -> None:
        self.directory = directory
        self.state_file = os.path.join(directory, "responder.json")
        self.received_file = os.path.join(directory, "responder-received.json")

    def start(self, wanted: list[Listener], port: int, lifetime: float, *, write: bool) -> tuple[bool, list[str]]:
        """Run a responder for exactly these addresses; return whether one had to be started, and its problems.

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
        process = spawn(sockets, lifetime, self.received_file)
        state = {"pid": process, "began": began(process), "fingerprint": fingerprint, "problems": problems}
        state["lifetime"] = lifetime
        with open(self.state_file, "w", encoding="utf-8") as file:
            json.dump(state, file)
        return True, problems

    def stop(self, *, write: bool) -> tuple[bool, list[list], list[str]]:
        """Stop the responder; return whether one ran, the packets it received, and why there may have been others."""
        state = self._running()
        if not write:
            return state is not None, [], []
        if state:
            end(state["pid"], state["began"])
        received, started = read_json(self.received_file), read_json(self.state_file) or {}
        problems = []
        if received is None:
            problems = [_NO_RECORD]
        elif not state:
            problems = [_TOO_EARLY.format(lifetime=started.get("lifetime", 0))]
        for path in (self.state_file, self.received_file):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        return state is not None, received or [], problems

    def _running(self) -> dict | None:
        state = read_json(self.state_file)
        return state if state and is_running(state["pid"], state["began"]) else None


def _identity(listener: Listener) -> list:
    """A recreated namespace has the same name and another inode; sockets remain in the old one."""
    try:
        inode = os.stat(f"/var/run/netns/{listener.namespace}").st_ino
    except OSError:
        inode = 0
    return [listener.workload, listener.network, listener.address, listener.protocol, inode]
