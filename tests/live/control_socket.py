# SPDX-License-Identifier: Apache-2.0
"""Commands of daemons without a process for each: JSON-RPC 1.0 on their control sockets (ovs-appctl(8))."""

from __future__ import annotations

import json
import socket
from pathlib import Path

# Seconds after which a daemon that does not answer fails the test.
TIMEOUT = 60.0


class Refused(AssertionError):
    """A daemon answered to a command with an error; fails the test unless it is expected."""


class ControlSocket:
    """A connection for any number of commands."""

    def __init__(self, path: Path) -> None:
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.settimeout(TIMEOUT)
        self._connection.connect(str(path))

    def close(self) -> None:
        self._connection.close()

    def call(self, method: str, *parameters: str) -> str:
        """Return what the daemon answers to a command. Raises Refused."""
        self._connection.sendall(json.dumps({"id": 0, "method": method, "params": list(parameters)}).encode())
        received, decoder = b"", json.JSONDecoder()
        while part := self._connection.recv(1 << 20):
            received += part
            try:
                reply, _end = decoder.raw_decode(received.decode())
            except ValueError:
                continue
            if reply["error"]:
                raise Refused(reply["error"])
            return reply["result"]
        raise ConnectionError(f"{method}: {received!r}")


def call(path: Path, method: str, *parameters: str) -> str:
    """Return what a daemon answers to one command. Raises Refused."""
    connection = ControlSocket(path)
    try:
        return connection.call(method, *parameters)
    finally:
        connection.close()
