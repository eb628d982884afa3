# SPDX-License-Identifier: Apache-2.0
"""What a server says of its databases: its read-only database `_Server` (ovsdb-server(5)), followed by a monitor.

A clustered database (ovsdb(7), "Clustered") is served by several servers. One leads; the others may be behind it, and
one that lost the majority is not `connected`.
"""

from __future__ import annotations

from .connection import Connection
from .errors import OvsdbError, Unreachable

_MONITOR = "heddle-server"
_COLUMNS = ["name", "model", "connected", "leader"]


class ServerStatus:
    """The databases of the server behind one connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._rows: dict[str, dict] = {}
        try:
            # Or the server would end the connection when its databases change; here the monitor reports that.
            connection.call("set_db_change_aware", [True], "_Server")
            tables = connection.call("monitor", ["_Server", _MONITOR, {"Database": {"columns": _COLUMNS}}], "_Server")
        except Unreachable:
            raise
        except OvsdbError:
            # A server before 2.9, which has no clusters.
            return
        self._apply(tables)

    def refresh(self) -> None:
        """Take in what the server has reported meanwhile; Unreachable when it is gone."""
        self._connection.poll()
        others = []
        for method, parameters in self._connection.notifications:
            if method == "update" and parameters[0] == _MONITOR:
                self._apply(parameters[1])
            else:
                others.append((method, parameters))
        self._connection.notifications.clear()
        self._connection.notifications.extend(others)

    def problem(self, database: str | None, *, write: bool) -> str:
        """Return why a database should be asked of another server, "" when it can be asked here.

        For a `write` the server has to lead the cluster. Without a `database` every server will do.
        """
        row = next((row for row in self._rows.values() if row["name"] == database), None)
        if row is None or row["model"] != "clustered":
            return ""
        if not row["connected"]:
            return "is not connected to its cluster"
        return "does not lead its cluster" if write and not row["leader"] else ""

    def _apply(self, tables: dict) -> None:
        for uuid, change in tables.get("Database", {}).items():
            if "new" in change:
                self._rows[uuid] = change["new"]
            else:
                self._rows.pop(uuid, None)
