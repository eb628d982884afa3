# SPDX-License-Identifier: Apache-2.0
"""The service's end of calls: each is answered by a copy of the service's process, which has all code loaded.

The copy ends with the call, so that a call leaves nothing behind in the service. It sends the version of its sources
first, reads one request up to the end of the stream, and sends the reply.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import sys
import traceback

from ..common.processes import bytecode_cache
from . import calls
from .service_client import CALL_SOCKET

_CREDENTIALS = struct.Struct("3i")


class CallSocket:
    """Takes calls of this user (root, on a host). Usable with `select`; call `answer` when it is readable."""

    def __init__(self, version: str, path: str = CALL_SOCKET) -> None:
        self._version = version
        self._children: list[int] = []
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        self._socket = socket.socket(socket.AF_UNIX)
        mask = os.umask(0o177)
        try:
            self._socket.bind(path)
        finally:
            os.umask(mask)
        self._socket.listen()
        self._socket.setblocking(False)
        calls.load()
        bytecode_cache.keep()

    def fileno(self) -> int:
        """Return the descriptor for `select`."""
        return self._socket.fileno()

    def close(self) -> None:
        """Take no more calls."""
        self._socket.close()

    def reap(self) -> None:
        """Collect copies that have ended."""
        self._children = [child for child in self._children if os.waitpid(child, os.WNOHANG) == (0, 0)]

    def answer(self) -> None:
        """Start a copy of this process that answers the next call."""
        try:
            connection, _address = self._socket.accept()
        except OSError:
            return
        with connection:
            connection.setblocking(True)
            _process, user, _group = _CREDENTIALS.unpack(
                connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            )
            if user != os.geteuid():
                return
            child = os.fork()
            if child:
                self._children.append(child)
                return
            status = 1
            try:
                self._socket.close()
                self._serve(connection)
                status = 0
            except ConnectionError:
                # The caller waited for too long, and does the work itself.
                status = 0
            except BaseException:  # The copy must not go on as a second service.
                traceback.print_exc()
                sys.stderr.flush()
            finally:
                os._exit(status)

    def _serve(self, connection: socket.socket) -> None:
        connection.sendall(f"{self._version}\n".encode())
        request = b"".join(iter(lambda: connection.recv(1 << 16), b""))
        if request:
            connection.sendall(calls.answered(self._version, request))
