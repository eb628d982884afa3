# SPDX-License-Identifier: Apache-2.0
"""Asks the running daemon of this host for its state; nothing here needs os-ken."""

from __future__ import annotations

import json
import socket

STATUS_SOCKET = "/run/heddle/mesh.sock"
_ANSWER_SECONDS = 5


def ask(path=STATUS_SOCKET):
    """Return the state of the running daemon; OSError or ValueError when it does not answer."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(_ANSWER_SECONDS)
        connection.connect(path)
        pieces = []
        while piece := connection.recv(65536):
            pieces.append(piece)
    return json.loads(b"".join(pieces))


def state_or_none():
    """Return the state of the running daemon, None where it does not answer."""
    try:
        return ask()
    except (OSError, ValueError):
        return None
