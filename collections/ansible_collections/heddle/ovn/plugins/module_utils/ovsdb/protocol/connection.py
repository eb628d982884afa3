# SPDX-License-Identifier: Apache-2.0
"""One JSON-RPC connection to one OVSDB server (RFC 7047 section 4). It knows nothing of tables or clusters."""

from __future__ import annotations

import contextlib
import json
from collections import deque
from typing import TYPE_CHECKING

from .errors import Unreachable, error_of
from .framing import Framer, FramingError
from .remotes import Remote, Tls, open_stream
from .stream import CHUNK

if TYPE_CHECKING:
    from .trace import Trace

_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


class Connection:
    """Sends requests and collects their replies in any order.

    `timeout` is how many seconds the server may stay silent. Once a connection is lost, everything raises the same
    `Unreachable`. `notifications` has what the server sent unasked, as (method, parameters), oldest first.
    """

    def __init__(self, remote: Remote, timeout: float, tls: Tls | None = None, connect_timeout: float | None = None):
        self.remote, self._timeout = remote, timeout
        self.notifications: deque[tuple[str, list]] = deque()
        self.outstanding = 0
        self._next_id = 0
        self._replies: dict = {}
        self._echoes: deque = deque()
        self._framer = Framer()
        self._failure: Unreachable | None = None
        self._trace: Trace | None = None
        self._stream = open_stream(remote, connect_timeout or timeout, tls)

    def fileno(self) -> int:
        """Return what `select` waits for; call `poll` then."""
        return self._stream.fileno()

    def close(self) -> None:
        """End the connection; harmless when repeated."""
        self._stream.close()

    def trace(self, trace: Trace | None) -> None:
        """Note what is sent and received from now on; None ends that."""
        self._trace = trace
        self._framer.observe = trace and (lambda message, text: trace.received(message.get("id"), text))

    def call(self, method: str, params: list, database: str):
        """Send a request and return its result; an `OvsdbError` about `database` when the server refuses it."""
        return self.collect(self.submit(method, params), database)

    def submit(self, method: str, params: list) -> int:
        """Send a request; returns what `collect` wants. When this raises, the server has not got the request whole."""
        self._next_id += 1
        if self._trace:
            self._trace.sent(self._next_id, method, params)
        self._send({"method": method, "params": params, "id": self._next_id})
        self.outstanding += 1
        # The request is sent: what breaks now shows when its reply is collected.
        with contextlib.suppress(Unreachable):
            self._answer()
        return self._next_id

    def has_reply(self, identifier: int) -> bool:
        """Return whether the reply to a request is there already."""
        return identifier in self._replies

    def collect(self, identifier: int, database: str):
        """Wait for the result of a submitted request; errors as `call`."""
        while identifier not in self._replies:
            self._receive(self._timeout)
        self.outstanding -= 1
        reply = self._replies.pop(identifier)
        error = reply.get("error")
        if error is not None:
            raise error_of(database, error if isinstance(error, dict) else {"error": str(error)})
        return reply["result"]

    def poll(self) -> None:
        """Read all that is there without waiting: notifications, keep-alives, the end of the connection."""
        while self._receive(0):
            pass

    def _lost(self, reason: str, cause: Exception | None = None) -> Unreachable:
        # What was under way is lost with it.
        self.outstanding = 0
        self._failure = Unreachable(str(self.remote), reason)
        self._failure.__cause__ = cause
        return self._failure

    def _send(self, message: dict) -> None:
        if self._failure:
            raise self._failure
        view = memoryview(_encode(message).encode("utf-8", "strict"))
        while view:
            try:
                sent = self._stream.send(view)
            except OSError as error:
                raise self._lost(f"connection lost: {error.strerror}", error) from error
            view = view[sent:]
            if sent:
                continue
            readable, writable = self._stream.wait(self._timeout, write=True)
            if readable:
                self._receive(0, answer=False)
            if not readable and not writable:
                raise self._lost(f"server did not read for {self._timeout:g} s")

    def _receive(self, timeout: float, answer: bool = True) -> bool:
        """Read what is there, waiting at most `timeout` for it, and file the messages; return whether any came."""
        if self._failure:
            raise self._failure
        if not self._stream.wait(timeout)[0]:
            if timeout:
                raise self._lost(f"server was silent for {timeout:g} s")
            return False
        try:
            data = self._stream.receive()
        except OSError as error:
            raise self._lost(f"connection lost: {error.strerror}", error) from error
        if data is None:
            return False
        if not data:
            raise self._lost("server closed the connection")
        quiet = len(data) < CHUNK and not self._stream.wait(0)[0]
        try:
            messages = self._framer.feed(data, quiet)
        except (FramingError, UnicodeDecodeError) as error:
            raise self._lost(f"not an OVSDB server: {error}", error) from error
        for message in messages:
            self._file(message)
        if answer:
            self._answer()
        return True

    def _file(self, message: dict) -> None:
        if "method" not in message:
            self._replies[message.get("id")] = message
        elif message["method"] == "echo":
            self._echoes.append(message)
        else:
            self.notifications.append((message["method"], message.get("params", [])))

    def _answer(self) -> None:
        """Answer the server's keep-alives (RFC 7047 section 4.1.11)."""
        while self._echoes:
            echo = self._echoes.popleft()
            self._send({"id": echo["id"], "result": echo.get("params", []), "error": None})
