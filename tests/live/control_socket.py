# SPDX-License-Identifier: Apache-2.0
"""Commands of daemons without a process for each: JSON-RPC 1.0 on their control sockets (ovs-appctl(8))."""

from __future__ import annotations

import json
import socket
from pathlib import Path


def call(control: Path, method: str, *parameters: str) -> str:
    """Return what a daemon answers to a command; fails the test when the daemon refuses it."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(control))
        connection.sendall(json.dumps({"id": 0, "method": method, "params": list(parameters)}).encode())
        received, decoder = b"", json.JSONDecoder()
        while part := connection.recv(65536):
            received += part
            try:
                reply, _end = decoder.raw_decode(received.decode())
            except ValueError:
                continue
            assert not reply["error"], reply["error"]
            return reply["result"]
    raise ConnectionError(f"{method}: {received!r}")
