# SPDX-License-Identifier: Apache-2.0
"""A small OVSDB client on the standard library: JSON-RPC over a stream socket (RFC 7047 section 4).

`Client` sends and receives; it knows nothing of tables. A failed transaction raises `OvsdbError` or one of its
subclasses, which name the operation and its table but never its values.
"""

from __future__ import annotations

import json
import select
import socket
from collections import deque

from .framing import Framer, FramingError

IN_FLIGHT = 2
READ_ONLY_OPERATIONS = frozenset({"select", "wait", "comment", "assert"})
_CHUNK = 1 << 18
_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


class OvsdbError(Exception):
    """A transaction or request failed. `error` is the server's word for it, `index` the operation's position."""

    def __init__(self, database, error, details="", index=None, operation=None):
        self.database, self.error, self.details, self.index = database, error, details, index
        self.table = (operation or {}).get("table")
        where = "at commit" if index is None else f"operation {index} ({(operation or {}).get('op')} {self.table})"
        super().__init__(f"{database}: {where}: {error}" + (f": {details}" if details else ""))


class Conflict(OvsdbError):
    """Somebody changed what the transaction was based on: a `wait` did not hold, or a row it refers to is gone."""


class Duplicate(Conflict):
    """The same, seen later: a row with that uuid, or with equal values in a unique index, exists already."""


class Unreachable(OvsdbError):
    """No connection, or the connection broke or stayed silent."""

    def __init__(self, remote, reason):
        super().__init__(remote, "no connection", reason)

    def __str__(self):
        return f"{self.database}: {self.details}"


class WriteRefused(OvsdbError):
    """Somebody tried to write through a read-only client."""


class Client:
    """One connection to one ovsdb-server; usable as a context manager.

    `remote` is `unix:PATH` or `tcp:HOST:PORT` (`tcp:[ADDRESS]:PORT` for IPv6); `timeout` is how long the server may
    stay silent. With `read_only`, operations that could write raise `WriteRefused` before anything is sent.
    Errors: `ValueError` for a remote that is not supported, `Unreachable` when there is no server.
    """

    def __init__(self, remote, timeout=60.0, read_only=False):
        self.remote, self.timeout, self.read_only = remote, timeout, read_only
        self.transactions = 0
        self._next_id = 0
        self._replies = {}
        self._schemas = {}
        self._echoes = deque()
        self._framer = Framer()
        self._socket = _connect(remote, timeout)
        self._socket.setblocking(False)

    def __enter__(self):
        return self

    def __exit__(self, *_exception):
        self.close()

    def close(self):
        """End the connection; harmless when repeated."""
        self._socket.close()

    def list_dbs(self):
        """Names of the databases on this server."""
        return self._collect(self._submit("list_dbs", []), self.remote)

    def get_schema(self, database):
        """The schema of a database as the server tells it, read once per connection."""
        if database not in self._schemas:
            self._schemas[database] = self._collect(self._submit("get_schema", [database]), database)
        return self._schemas[database]

    def transact(self, database, operations):
        """Run a list of operations as one transaction; return one result per operation.

        Raises `Conflict`, `Duplicate`, `WriteRefused` or plain `OvsdbError`; nothing is committed then.
        """
        return self.finish(self.start(database, operations))

    def start(self, database, operations):
        """Send a transaction without waiting for its reply; returns what `finish` wants."""
        if self.read_only:
            for index, operation in enumerate(operations):
                if operation["op"] not in READ_ONLY_OPERATIONS:
                    raise WriteRefused(database, "read-only client", "", index, operation)
        self.transactions += 1
        return self._submit("transact", [database, *operations]), database, operations

    def finish(self, started):
        """Wait for the reply to a started transaction; as `transact`."""
        identifier, database, operations = started
        results = self._collect(identifier, database)
        for index, result in enumerate(results):
            if result and "error" in result:
                committing = index >= len(operations)
                raise _error(database, result, None if committing else index, None if committing else operations[index])
        return results

    def pipeline(self, database, transactions):
        """Run transactions in order with at most `IN_FLIGHT` under way; yields results or an `OvsdbError` for each.

        The next transaction is computed while the server works on the previous ones.
        """
        started = deque()
        for operations in transactions:
            started.append(self.start(database, operations))
            if len(started) >= IN_FLIGHT:
                yield self._result_of(started.popleft())
        while started:
            yield self._result_of(started.popleft())

    def _result_of(self, started):
        try:
            return self.finish(started)
        except Unreachable:
            raise
        except OvsdbError as error:
            return error

    def _submit(self, method, params):
        self._next_id += 1
        self._send({"method": method, "params": params, "id": self._next_id})
        return self._next_id

    def _collect(self, identifier, database):
        while identifier not in self._replies:
            self._receive(self.timeout)
        reply = self._replies.pop(identifier)
        if reply.get("error") is not None:
            error = reply["error"]
            if not isinstance(error, dict):
                error = {"error": str(error)}
            raise _error(database, error, None, None)
        return reply["result"]

    def _send(self, message):
        view = memoryview(_encode(message).encode("utf-8", "strict"))
        while view:
            try:
                view = view[self._socket.send(view) :]
            except BlockingIOError:
                readable, writable, _errors = select.select([self._socket], [self._socket], [], self.timeout)
                if readable:
                    self._receive(0, answer=False)
                if not readable and not writable:
                    raise Unreachable(self.remote, f"server did not read for {self.timeout:g} s") from None
            except OSError as error:
                raise Unreachable(self.remote, f"connection lost: {error.strerror}") from error
        self._answer()

    def _receive(self, timeout, answer=True):
        """Read what is there, waiting at most `timeout` for it, and file the messages."""
        if not select.select([self._socket], [], [], timeout)[0]:
            if timeout:
                raise Unreachable(self.remote, f"server was silent for {timeout:g} s")
            return
        try:
            data = self._socket.recv(_CHUNK)
        except OSError as error:
            raise Unreachable(self.remote, f"connection lost: {error.strerror}") from error
        if not data:
            raise Unreachable(self.remote, "server closed the connection")
        quiet = len(data) < _CHUNK and not select.select([self._socket], [], [], 0)[0]
        try:
            messages = self._framer.feed(data, quiet)
        except (FramingError, UnicodeDecodeError) as error:
            raise Unreachable(self.remote, f"not an OVSDB server: {error}") from error
        for message in messages:
            if message.get("method") == "echo":
                self._echoes.append(message)
            elif "method" not in message:
                self._replies[message.get("id")] = message
        if answer:
            self._answer()

    def _answer(self):
        """Answer the server's keep-alives (RFC 7047 section 4.1.11)."""
        while self._echoes:
            echo = self._echoes.popleft()
            self._send({"id": echo["id"], "result": echo.get("params", []), "error": None})


def _connect(remote, timeout):
    scheme, _colon, address = remote.partition(":")
    try:
        if scheme == "unix" and address:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                connection.settimeout(timeout)
                connection.connect(address)
            except OSError:
                connection.close()
                raise
            return connection
        if scheme == "tcp" and ":" in address:
            host, _colon, port = address.rpartition(":")
            return socket.create_connection((host.strip("[]"), int(port)), timeout)
    except OSError as error:
        raise Unreachable(remote, f"cannot connect: {error.strerror or error}") from error
    raise ValueError(f"remote {remote!r} is not supported; use unix:PATH or tcp:HOST:PORT")


def _error(database, result, index, operation):
    """The exception for an error object (RFC 7047 section 3.1; `duplicate uuid`: ovsdb-server(7) 5.2.1)."""
    error, details = result["error"], result.get("details", "")
    kind = OvsdbError
    if error in ("timed out", "referential integrity violation"):
        kind = Conflict
    elif error == "duplicate uuid" or (error == "constraint violation" and "identical values" in details):
        kind = Duplicate
    return kind(database, error, details, index, operation)
