# SPDX-License-Identifier: Apache-2.0
"""Answers at health check ports of Services (`healthCheckNodePort`), between the events of the service.

An answer is that of Kubernetes' service proxies: status 200 where the node has ready endpoints, else 503, and JSON with
their number. It depends on the port alone, so of a request nothing is read but where it ends (RFC 9112, section 2.1).
A port is open only while the plan has such a Service, at the node's own addresses.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Callable, Iterable

from ...render.services.health_checks import render_health_checks
from ...types.health_check import HealthCheck
from ..damaged_plan import MALFORMED
from ..module_runner import KNOWN_ERRORS
from ..service.components import PLAN_FILE, read_host, read_plan

# Linux, ip(7): an address may come after the socket. Python has no names for these.
_FREEBIND = {socket.AF_INET: (socket.IPPROTO_IP, 15), socket.AF_INET6: (socket.IPPROTO_IPV6, 78)}
_END = b"\r\n\r\n"
_LONGEST = 8192
_MOST = 64
# Seconds for a request to come in, and until a port that was taken is tried again.
_PATIENCE, _RETRY = 5.0, 5.0


class HealthCheckPorts:
    """`sources` are what is waited for; `say` takes lines for the journal."""

    def __init__(
        self, say: Callable[[str], None], wanted: Callable[[], dict[tuple[str, int], HealthCheck]] | None = None,
        plan_file: str = PLAN_FILE,
    ) -> None:  # fmt: skip
        self._say, self._wanted, self._file = say, wanted or _planned, plan_file
        self._version: tuple[int, int] | None = None
        self._checks: dict[tuple[str, int], HealthCheck] = {}
        self._listeners: dict[tuple[str, int], socket.socket] = {}
        self._failures: dict[tuple[str, int], str] = {}
        self._retry = 0.0
        # Connections, oldest first: the port's key, what was received, and until when the rest is waited for.
        self._open: dict[socket.socket, tuple[tuple[str, int], bytes, float]] = {}

    @property
    def sources(self) -> list[socket.socket]:
        """Return the sockets that are waited for."""
        return [*self._listeners.values(), *self._open]

    def follow(self) -> None:
        """Open and close ports after a change of the plan, and end connections that have waited for too long."""
        now = time.monotonic()
        for connection in [one for one, (_key, _data, until) in self._open.items() if now >= until]:
            self._close(connection)
        try:
            status = os.stat(self._file)
            version = status.st_ino, status.st_mtime_ns
        except OSError:
            version = (0, 0)
        if version != self._version:
            try:
                self._checks = self._wanted()
            except (*KNOWN_ERRORS, *MALFORMED, OSError):
                # Another part of the service reports a damaged file; what was known stays.
                return
            self._version, self._retry = version, 0.0
            for key in self._listeners.keys() - self._checks.keys():
                self._listeners.pop(key).close()
            self._failures = {key: why for key, why in self._failures.items() if key in self._checks}
        if self._checks.keys() - self._listeners.keys() and now >= self._retry:
            self._retry = now + _RETRY
            for key in sorted(self._checks.keys() - self._listeners.keys()):
                self._listen(key)

    def ready(self, readable: Iterable) -> None:
        """Accept connections and answer requests on those of `sources` that are readable."""
        keys = {opened: key for key, opened in self._listeners.items()}
        for opened in readable:
            if opened in keys:
                self._accept(opened, keys[opened])
            elif opened in self._open:
                self._read(opened)

    def close(self) -> None:
        """Close all sockets."""
        for connection in [*self._open]:
            self._close(connection)
        while self._listeners:
            self._listeners.popitem()[1].close()

    def _listen(self, key: tuple[str, int]) -> None:
        address, port = key
        try:
            self._listeners[key] = _listening(key)
        except OSError as error:
            if self._failures.get(key) != str(error):
                check = self._checks[key]
                self._say(f"health check port {port} of {check.namespace}/{check.name} at {address}: {error}")
            self._failures[key] = str(error)
        else:
            self._failures.pop(key, None)

    def _accept(self, listener: socket.socket, key: tuple[str, int]) -> None:
        with contextlib.suppress(OSError):
            connection, _address = listener.accept()
            connection.setblocking(False)
            self._open[connection] = key, b"", time.monotonic() + _PATIENCE
        while len(self._open) > _MOST:
            self._close(next(iter(self._open)))

    def _read(self, connection: socket.socket) -> None:
        key, data, until = self._open[connection]
        try:
            more = connection.recv(_LONGEST)
        except BlockingIOError:
            return
        except OSError:
            more = b""
        data += more
        if not more or len(data) > _LONGEST:
            self._close(connection)
        elif _END in data:
            # A new connection's buffer takes the few bytes at once.
            with contextlib.suppress(OSError):
                connection.send(_answer(self._checks.get(key), is_head=data.startswith(b"HEAD ")))
            self._close(connection)
        else:
            self._open[connection] = key, data, until

    def _close(self, connection: socket.socket) -> None:
        del self._open[connection]
        # A copy of this process that answers a call has the connection too, and keeps it open until it ends.
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
        connection.close()


def _listening(key: tuple[str, int]) -> socket.socket:
    kind = socket.AF_INET6 if ":" in key[0] else socket.AF_INET
    with contextlib.ExitStack() as stack:
        opened = stack.enter_context(socket.socket(kind, socket.SOCK_STREAM | socket.SOCK_NONBLOCK))
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.setsockopt(*_FREEBIND[kind], 1)
        opened.bind(key)
        opened.listen(_MOST)
        stack.pop_all()
    return opened


def _planned() -> dict[tuple[str, int], HealthCheck]:
    plan, node = read_plan(), read_host()["node"]
    return render_health_checks(plan, node) if plan and node in plan["nodes"] else {}


def _answer(check: HealthCheck | None, *, is_head: bool) -> bytes:
    count = check.local_endpoints if check else 0
    service = {"namespace": check.namespace, "name": check.name} if check else {}
    body = json.dumps({"service": service, "localEndpoints": count}).encode()
    status = "200 OK" if count else "503 Service Unavailable"
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nX-Content-Type-Options: nosniff\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (b"" if is_head else body)
