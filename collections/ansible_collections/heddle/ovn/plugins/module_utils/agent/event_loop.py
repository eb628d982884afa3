# SPDX-License-Identifier: Apache-2.0
"""Watches for events that undo a host's desired state: a restart of ovs-vswitchd, changed patch ports or bridges,
addresses on an uplink that is attached to a bridge, and removals in the kernel (`removals`).

ovs-vswitchd keeps flows and MAC tables in memory only. Flows refer to ports by number, and patch ports that
ovn-controller recreates get new numbers.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
from collections.abc import Callable

from ..netlink.monitor import UplinkMonitor
from ..ovsdb.framing import Framer, FramingError
from .convergence import Converged
from .module_runner import VSWITCH
from .removals import Removals

PROCESS_FILE = "/run/openvswitch/ovs-vswitchd.pid"
POLL_SECONDS = 0.1
_REQUEST = {
    "method": "monitor_cond",
    "id": 1,
    "params": [
        "Open_vSwitch",
        "patch ports",
        {
            "Bridge": [{"columns": ["name"]}],
            "Interface": [{"columns": ["name", "ofport"], "where": [["type", "==", "patch"]]}],
        },
    ],
}


class Events:
    """Reports events since the last call."""

    def __init__(
        self, process_file: str = PROCESS_FILE, database: str = VSWITCH, converged: Callable[[], bool] | None = None
    ) -> None:
        self._process_file, self._path = process_file, database.removeprefix("unix:")
        self._converged = converged or Converged()
        self._socket: socket.socket | None = None
        self._framer = Framer()
        self._process = self._identity()
        self._uplinks, self._removals = UplinkMonitor(), Removals()
        self._ports_differ = self._bridges_differ = False

    def follow(self, uplinks: frozenset[str]) -> None:
        """Set the NICs that should have no addresses."""
        self._uplinks.names = uplinks

    def wait(self) -> str | None:
        """Wait for an event and return it: `switch restarted`, `uplink changed`, `kernel changed`,
        `bridges changed`, `ports changed`, or None.

        The last two are suppressed while a playbook is between a plan and its gateways, when they keep changing.
        """
        readable = self._wait()
        if self._socket in readable:
            self._read()
        process = self._identity()
        if process != self._process:
            self._process = process
            return "switch restarted" if process else None
        if self._uplinks in readable and self._uplinks.changed():
            return "uplink changed"
        if any(source in readable for source in self._removals.sources) and self._removals.changed():
            return "kernel changed"
        if (self._ports_differ or self._bridges_differ) and self._converged():
            event = "bridges changed" if self._bridges_differ else "ports changed"
            self._ports_differ = self._bridges_differ = False
            return event
        return None

    def _wait(self) -> list:
        """Return the readable sources: the database's connection, the kernel's sockets."""
        if self._socket is None:
            self._connect()
        sources = [source for source in (self._socket, self._uplinks, *self._removals.sources) if source is not None]
        return select.select(sources, [], [], POLL_SECONDS)[0]

    def _identity(self) -> tuple | None:
        """Return an identity of the running ovs-vswitchd; None while there is none."""
        try:
            with open(self._process_file, encoding="utf-8") as text:
                number = int(text.read())
            return number, os.stat(f"/proc/{number}").st_ctime_ns
        except (OSError, ValueError):
            return None

    def _read(self) -> None:
        """Read the database's notifications."""
        try:
            data = self._socket.recv(1 << 18)
            messages = self._framer.feed(data, True) if data else []
        except (OSError, FramingError, UnicodeDecodeError):
            data, messages = b"", []
        if not data:
            self._socket.close()
            self._socket = None
            return
        for message in messages:
            if message.get("method") == "echo":
                self._send({"id": message["id"], "result": message.get("params", []), "error": None})
            elif str(message.get("method", "")).startswith("update"):
                tables = message["params"][1]
                self._bridges_differ |= "Bridge" in tables
                self._ports_differ |= "Interface" in tables

    def _connect(self) -> None:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._framer = Framer()
        try:
            connection.connect(self._path)
            self._socket = connection
            self._send(_REQUEST)
            # Events during the reconnection are not replayed.
            self._ports_differ = True
        except OSError:
            connection.close()
            self._socket = None

    def _send(self, message: dict) -> None:
        with contextlib.suppress(OSError):
            self._socket.sendall(json.dumps(message).encode())
