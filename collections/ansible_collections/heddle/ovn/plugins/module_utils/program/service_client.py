# SPDX-License-Identifier: Apache-2.0
"""Has a call answered by the service `heddle-host`, which has all code loaded. Imports nothing else of the program."""

from __future__ import annotations

import socket

CALL_SOCKET = "/run/heddle/calls.sock"
# Seconds that the service has to take a call. While it applies something it takes none, and the call runs here.
PATIENCE = 0.5


def asked(request: bytes, version: str, path: str = CALL_SOCKET) -> bytes | None:
    """Return the service's reply, None without a service of the same sources, or when it ended meanwhile.

    What the service has begun may then be run once more: each call only changes what differs.
    """
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.settimeout(PATIENCE)
            connection.connect(path)
            if connection.recv(len(version) + 1) != f"{version}\n".encode():
                return None
            connection.settimeout(None)
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
            reply = b"".join(iter(lambda: connection.recv(1 << 16), b""))
        except OSError:
            return None
    return reply if reply.endswith(b"\n") else None
