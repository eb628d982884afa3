# SPDX-License-Identifier: Apache-2.0
"""A small OVSDB client on the standard library: transactions with one database server, or with a cluster of them.

`Client` sends and receives; it is independent of tables. `connection.py` speaks JSON-RPC with one server, `cluster.py`
knows which server of several leads. The errors are those of `errors.py`.
"""

from __future__ import annotations

from collections import deque

from ...common.polling import attempts
from .cluster import ServerStatus
from .connection import Connection
from .errors import Conflict, Duplicate, Interrupted, OvsdbError, Unreachable, WriteRefused, error_of
from .remotes import Remote, Tls, parse_remotes

__all__ = ["Client", "Conflict", "Duplicate", "Interrupted", "OvsdbError", "Unreachable", "WriteRefused"]

IN_FLIGHT = 2
READ_ONLY_OPERATIONS = frozenset({"select", "wait", "comment", "assert"})
# Seconds that one of several servers has for a connection: another one may be there.
CONNECT_TIMEOUT = 10.0


class Client:
    """A connection to one of the servers of `remote`; usable as a context manager.

    `remote` names one or several servers as in `remotes.parse_remotes`; `tls` is needed for `ssl:`. `timeout` is how
    many seconds a server may stay silent, and how long one that can be used is looked for. With `read_only`, operations
    that could write raise `WriteRefused` before anything is sent.

    Of several servers a client that may write uses the leader of the cluster, a read-only one any member that is
    connected to it. When that changes, or the server goes, the next request goes to another one; a transaction that
    only reads is repeated there, one that was under way and writes raises `Interrupted`.
    Errors: `ValueError` for a remote that is not supported, `Unreachable` when there is no server.
    """

    def __init__(self, remote: str, timeout: float = 60.0, read_only: bool = False, tls: Tls | None = None):
        self.remote, self.timeout, self.read_only = remote, timeout, read_only
        self.transactions = 0
        self._remotes, self._tls = parse_remotes(remote), tls
        self._schemas: dict = {}
        self._status: ServerStatus | None = None
        self._connection = self._first()

    def __enter__(self):
        return self

    def __exit__(self, *_exception):
        self.close()

    def close(self):
        """End the connection; harmless when repeated."""
        self._connection.close()

    @property
    def server(self) -> str:
        """The server in use, as a remote (ovsdb(7)): one of those that the client was given."""
        return str(self._connection.remote)

    def trace(self, trace):
        """Note in a `Trace` what is sent to this server and received from it; None ends that."""
        self._connection.trace(trace)

    def list_dbs(self):
        """Return the names of the databases on this server (RFC 7047 section 4.1.1). Raises Unreachable."""
        return self._call("list_dbs", [], None, self.remote)

    def get_schema(self, database):
        """Return the schema of a database as the server reports it (RFC 7047 section 3.2), read once per connection.

        OvsdbError when the server has no such database.
        """
        if database not in self._schemas:
            self._schemas[database] = self._call("get_schema", [database], database, database)
        return self._schemas[database]

    def transact(self, database, operations):
        """Run a list of operations as one transaction; return one result per operation.

        Raises `Conflict`, `Duplicate`, `WriteRefused` or plain `OvsdbError`; nothing is committed then. Only after
        `Interrupted` it may be.
        """
        return self.finish(self.start(database, operations))

    def start(self, database, operations):
        """Send a transaction without waiting for its reply; return the handle for `finish`.

        WriteRefused of a read-only client, before anything is sent; Unreachable.
        """
        if self.read_only:
            for index, operation in enumerate(operations):
                if operation["op"] not in READ_ONLY_OPERATIONS:
                    raise WriteRefused(database, "read-only client", "", index, operation)
        self.transactions += 1
        self._prepare(database)
        parameters = [database, *operations]
        try:
            identifier = self._connection.submit("transact", parameters)
        except Unreachable:
            if not self._may_change_server():
                raise
            self._change_server(database)
            identifier = self._connection.submit("transact", parameters)
        return self._connection, identifier, database, operations

    def finish(self, started):
        """Wait for the reply to a started transaction; as `transact`."""
        connection, identifier, database, operations = started
        try:
            results = connection.collect(identifier, database)
        except Unreachable as error:
            if len(self._remotes) == 1:
                raise
            if any(operation["op"] not in READ_ONLY_OPERATIONS for operation in operations):
                raise Interrupted(database, str(error)) from error
            if connection is self._connection:
                self._change_server(database)
            connection, identifier, _database, _operations = self.start(database, operations)
            results = connection.collect(identifier, database)
        for index, result in enumerate(results):
            if result and "error" in result:
                committing = index >= len(operations)
                raise error_of(
                    database, result, None if committing else index, None if committing else operations[index]
                )
        return results

    def pipeline(self, database, transactions):
        """Run transactions in order with at most `IN_FLIGHT` outstanding; yields results or an `OvsdbError` for each.

        The next transaction is computed while the server works on the previous ones. Raises `Unreachable` and
        `Interrupted`.
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
        except (Unreachable, Interrupted):
            raise
        except OvsdbError as error:
            return error

    def _call(self, method: str, parameters: list, database: str | None, name: str):
        self._prepare(database)
        try:
            return self._connection.call(method, parameters, name)
        except Unreachable:
            if not self._may_change_server():
                raise
        self._change_server(database)
        return self._connection.call(method, parameters, name)

    def _may_change_server(self) -> bool:
        """Another server knows nothing of requests that are under way."""
        return len(self._remotes) > 1 and self._connection.outstanding <= 0

    def _prepare(self, database: str | None) -> None:
        """Change the server when it is gone or no longer the one to be asked for a database."""
        if not self._may_change_server():
            return
        try:
            problem = self._problem(database)
        except Unreachable:
            problem = "is gone"
        if problem:
            self._change_server(database)

    def _problem(self, database: str | None) -> str:
        if self._status is None:
            self._status = ServerStatus(self._connection)
        self._status.refresh()
        return self._status.problem(database, write=not self.read_only)

    def _first(self) -> Connection:
        """Connect to the first server that takes a connection."""
        if len(self._remotes) == 1:
            return Connection(self._remotes[0], self.timeout, self._tls)
        reasons = []
        for remote in self._remotes:
            try:
                return self._connect(remote)
            except Unreachable as error:
                reasons.append(str(error))
        raise Unreachable(self.remote, "; ".join(reasons))

    def _connect(self, remote: Remote) -> Connection:
        return Connection(remote, self.timeout, self._tls, min(self.timeout, CONNECT_TIMEOUT))

    def _change_server(self, database: str | None) -> None:
        """Look for a server that can be asked for a database, beginning after the one in use.

        While a cluster elects a leader there is none, so they are asked again until `timeout` seconds are over.
        """
        reasons: dict[str, str] = {}
        place = self._remotes.index(self._connection.remote) + 1
        order = (*self._remotes[place:], *self._remotes[:place])
        for _attempt in attempts(self.timeout, shortest=0.05, longest=1.0):
            for remote in order:
                self._connection.close()
                try:
                    self._connection, self._status = self._connect(remote), None
                    self._schemas.clear()
                    problem = self._problem(database)
                except Unreachable as error:
                    problem = error.details
                if not problem:
                    return
                reasons[str(remote)] = f"{remote}: {problem}"
        what = f"no server for {database or 'any database'} after {self.timeout:g} s"
        raise Unreachable(self.remote, f"{what}: {'; '.join(reasons.values())}")
