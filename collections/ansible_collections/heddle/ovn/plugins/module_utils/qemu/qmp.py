# SPDX-License-Identifier: Apache-2.0
"""A client for one QEMU (QEMU, "QEMU Machine Protocol Specification"), on the standard library."""

from __future__ import annotations

import json
import secrets
import socket
from collections.abc import Callable

from ..common.errors import HypervisorError
from ..common.polling import attempts


class QmpError(HypervisorError):
    """QEMU does not answer, or rejects a command; the text has the details, `kind` is QEMU's class of a rejection."""

    def __init__(self, text: str, kind: str = "") -> None:
        super().__init__(text)
        self.kind = kind


class QmpAbsent(QmpError):
    """There is no QEMU."""


class Qmp:
    """One QEMU's control socket; usable as a context manager. `timeout` is for each answer, in seconds."""

    def __init__(self, path: str, timeout: float = 60.0) -> None:
        self.path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(timeout)
        try:
            self._socket.connect(path)
        except OSError as error:
            self._socket.close()
            absent = isinstance(error, (FileNotFoundError, ConnectionRefusedError))
            raise (QmpAbsent if absent else QmpError)(f"{path}: {error}") from error
        self._lines = self._socket.makefile("rwb")
        self._read()
        try:
            self.execute("qmp_capabilities")
        except QmpError as error:
            # QEMU has executed the same command of a former client, which was cut off, on this connection already.
            if error.kind != "CommandNotFound":
                raise

    def __enter__(self) -> Qmp:
        return self

    def __exit__(self, *_exception) -> None:
        self._lines.close()
        self._socket.close()

    def execute(self, command: str, arguments: dict | None = None) -> dict:
        """Run a command and return its result.

        QEMU may send the answer to a former client's last command, which was cut off, to the next client. So each
        command has an id of its own, which its answer repeats.
        """
        own = secrets.token_hex(8)
        request = {"execute": command, "id": own, **({"arguments": arguments} if arguments else {})}
        try:
            self._lines.write(json.dumps(request).encode() + b"\n")
            self._lines.flush()
        except OSError as error:
            raise QmpError(f"{self.path}: {command}: {error}") from error
        while True:
            reply = self._read()
            if reply.get("id") != own:
                continue
            if "error" in reply:
                failure = reply["error"]
                raise QmpError(f"{self.path}: {command}: {failure.get('desc')}", failure.get("class", ""))
            if "return" in reply:
                return reply["return"]

    def _read(self) -> dict:
        try:
            line = self._lines.readline()
        except OSError as error:
            raise QmpError(f"{self.path}: {error}") from error
        if not line:
            raise QmpError(f"{self.path}: QEMU closed the connection")
        try:
            reply = json.loads(line)
        except ValueError as error:
            # QEMU ended within a line, or something else is on the socket.
            raise QmpError(f"{self.path}: no JSON: {error}") from error
        if not isinstance(reply, dict):
            raise QmpError(f"{self.path}: no object: {reply!r:.100}")
        return reply


def wait_for(
    path: str, happened: Callable[[Qmp], bool], timeout: float, has_ended: Callable[[], bool] = lambda: False
) -> None:
    """Wait until QEMU answers and `happened` holds; QmpError after `timeout` seconds, or once `has_ended` holds."""
    reason = ""
    for _attempt in attempts(timeout):
        ended = has_ended()
        try:
            with Qmp(path) as vm:
                if happened(vm):
                    return
            reason = "the expected state was not reached"
        except QmpError as error:
            reason = str(error)
        if ended:
            raise QmpError(f"QEMU has ended: {reason}")
    raise QmpError(f"{path}: not within {timeout:g} s: {reason}")
