# SPDX-License-Identifier: Apache-2.0
"""Reports which tables of a database changed, for an event loop (`monitor_cond`, ovsdb-server(7), 4.1.12)."""

from __future__ import annotations

from .connection import Connection
from .remotes import Tls, parse_remotes


class Monitor:
    """A monitor on one server; usable with `select`.

    `tables` has the columns of each table, and optionally conditions: `{"Interface": {"columns": ["name"], "where":
    [["type", "==", "patch"]]}}`. Unreachable when the server does not answer, here and in `changed`; then make another
    one. What changed before or in between is not reported.
    """

    def __init__(self, remote: str, database: str, tables: dict[str, dict], *, timeout=10.0, tls: Tls | None = None):
        self._connection = Connection(parse_remotes(remote)[0], timeout, tls)
        # Its reply, the rows as they are, is not waited for.
        self._request: int | None = self._connection.submit("monitor_cond", [database, "monitor", tables])
        self._database = database

    def fileno(self) -> int:
        """Return what `select` waits for; call `changed` then."""
        return self._connection.fileno()

    def close(self) -> None:
        """End it; harmless when repeated."""
        self._connection.close()

    def changed(self) -> set[str]:
        """Return the tables whose rows changed since the last call, without waiting.

        OvsdbError when the server refuses the monitor.
        """
        self._connection.poll()
        if self._request is not None and self._connection.has_reply(self._request):
            self._connection.collect(self._request, self._database)
            self._request = None
        found: set[str] = set()
        while self._connection.notifications:
            method, parameters = self._connection.notifications.popleft()
            if method.startswith("update"):
                found |= parameters[1].keys()
        return found
