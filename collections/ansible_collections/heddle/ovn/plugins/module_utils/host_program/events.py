# SPDX-License-Identifier: Apache-2.0
"""What takes parts of a host's share away while it runs: a restart of ovs-vswitchd, and patch ports made anew.

ovs-vswitchd keeps flows and MAC tables in memory only, and a flow names ports by their numbers, which ovn-controller's
patch ports get anew when they are made anew.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket

from ..ovsdb_framing import Framer, FramingError
from ..runner import VSWITCH

PROCESS_FILE = "/run/openvswitch/ovs-vswitchd.pid"
POLL_SECONDS = 0.1
_REQUEST = {
    "method": "monitor_cond",
    "id": 1,
    "params": [
        "Open_vSwitch",
        "patch ports",
        {"Interface": [{"columns": ["name", "ofport"], "where": [["type", "==", "patch"]]}]},
    ],
}


class Events:
    """Tells that something happened since it was asked last."""

    def __init__(self, process_file: str = PROCESS_FILE, database: str = VSWITCH) -> None:
        self._process_file, self._path = process_file, database.removeprefix("unix:")
        self._socket: socket.socket | None = None
        self._framer = Framer()
        self._process = self._identity()

    def wait(self) -> str | None:
        """Wait a moment; return what happened: `switch restarted`, `ports changed`, or None."""
        changed = self._ports_changed()
        process = self._identity()
        if process != self._process:
            self._process = process
            return "switch restarted" if process else None
        return "ports changed" if changed else None

    def _identity(self) -> tuple | None:
        """Return what differs between two runs of ovs-vswitchd; None while there is none."""
        try:
            with open(self._process_file, encoding="utf-8") as text:
                number = int(text.read())
            return number, os.stat(f"/proc/{number}").st_ctime_ns
        except (OSError, ValueError):
            return None

    def _ports_changed(self) -> bool:
        if self._socket is None:
            self._connect()
        if self._socket is None:
            select.select([], [], [], POLL_SECONDS)
            return False
        if not select.select([self._socket], [], [], POLL_SECONDS)[0]:
            return False
        try:
            data = self._socket.recv(1 << 18)
            messages = self._framer.feed(data, True) if data else []
        except (OSError, FramingError, UnicodeDecodeError):
            data, messages = b"", []
        if not data:
            self._socket.close()
            self._socket = None
            return False
        for message in messages:
            if message.get("method") == "echo":
                self._send({"id": message["id"], "result": message.get("params", []), "error": None})
        return any(str(message.get("method", "")).startswith("update") for message in messages)

    def _connect(self) -> None:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._framer = Framer()
        try:
            connection.connect(self._path)
            self._socket = connection
            self._send(_REQUEST)
        except OSError:
            connection.close()
            self._socket = None

    def _send(self, message: dict) -> None:
        with contextlib.suppress(OSError):
            self._socket.sendall(json.dumps(message).encode())
