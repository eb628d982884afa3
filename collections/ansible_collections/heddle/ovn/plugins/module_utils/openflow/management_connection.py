# SPDX-License-Identifier: Apache-2.0
"""A connection to the management socket that ovs-vswitchd has for each bridge (ovs-vswitchd(8)).

Messages are those of the OpenFlow Switch Specification: 1.0.0, sections 5.1 and 5.3.7, and 1.4.0, sections 7.1, 7.3.5
and 7.5.4, which differ in numbers of messages only. One connection takes as long as a single ovs-ofctl(8) takes to
start.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Iterable, Iterator

from ..common.errors import OpenFlowError

# Seconds that ovs-vswitchd may be silent.
TIMEOUT = 60.0
VERSION_1_0, VERSION_1_4 = 1, 5
_HELLO, _ERROR, _ECHO_REQUEST, _ECHO_REPLY = 0, 1, 2, 3
# The reply has the next number.
_BARRIER_REQUEST = {VERSION_1_0: 18, VERSION_1_4: 20}
_HEADER = struct.Struct("!BBHI")


def management_socket(bridge: str) -> str:
    """Return the path of a bridge's socket, in the directory that programs of Open vSwitch use."""
    return f"{os.environ.get('OVS_RUNDIR', '/var/run/openvswitch')}/{bridge}.mgmt"


class Connection:
    """One connection of one version, as `connected` yields it."""

    def __init__(self, stream: socket.socket, replies, version: int) -> None:
        self._stream, self._replies, self._version = stream, replies, version
        # Messages that answer nothing have the number 0.
        self._sent = 1

    def exchange(self, messages: Iterable[tuple[int, bytes]]) -> tuple[dict[int, list[bytes]], dict[int, str]]:
        """Send messages, each as its type and body, and wait until the switch has processed all of them.

        Returns bodies of the replies and the errors, both by the position of the message. ConnectionError when the
        connection ends before that.
        """
        first = self._sent
        for kind, body in messages:
            self._send(kind, self._sent, body)
            self._sent += 1
        barrier, request = self._sent, _BARRIER_REQUEST[self._version]
        self._send(request, barrier)
        self._sent += 1
        found: dict[int, list[bytes]] = {}
        errors: dict[int, str] = {}
        while True:
            kind, identifier, body = self._read()
            if kind == _ECHO_REQUEST:
                self._send(_ECHO_REPLY, identifier, body)
            elif kind == _ERROR:
                if not first <= identifier < barrier:
                    raise ConnectionError(_error_text(body))
                errors[identifier - first] = _error_text(body)
            elif kind == request + 1 and identifier == barrier:
                return found, errors
            elif first <= identifier < barrier:
                found.setdefault(identifier - first, []).append(body)

    def greet(self) -> None:
        """Agree on the version."""
        self._send(_HELLO, 0)
        kind, _identifier, body = self._read()
        if kind != _HELLO:
            raise ConnectionError(f"no OpenFlow 1.{self._version - 1} ({_error_text(body)})")

    def _send(self, kind: int, identifier: int, body: bytes = b"") -> None:
        self._stream.sendall(_HEADER.pack(self._version, kind, _HEADER.size + len(body), identifier) + body)

    def _read(self) -> tuple[int, int, bytes]:
        """Return type, identifier and body of the next message."""
        head = self._replies.read(_HEADER.size)
        if len(head) < _HEADER.size:
            raise ConnectionError("the connection has ended")
        _version, kind, size, identifier = _HEADER.unpack(head)
        return kind, identifier, self._replies.read(size - _HEADER.size)


@contextlib.contextmanager
def connected(path: str, version: int, timeout: float = TIMEOUT) -> Iterator[Connection]:
    """Connect to a management socket; OpenFlowError when the switch does not answer for `timeout` seconds."""
    try:
        with socket.socket(socket.AF_UNIX) as stream:
            stream.settimeout(timeout)
            stream.connect(path)
            with stream.makefile("rb") as replies:
                connection = Connection(stream, replies, version)
                connection.greet()
                yield connection
    except OSError as error:
        raise OpenFlowError(f"{path}: {error.strerror or error}. Does ovs-vswitchd run?") from error


def _error_text(body: bytes) -> str:
    return "error type {}, code {}".format(*struct.unpack("!HH", body[:4])) if len(body) >= 4 else "no error"
