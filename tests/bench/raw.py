# SPDX-License-Identifier: Apache-2.0
"""The yardstick: OVSDB JSON-RPC (RFC 7047) and nothing else. No checks, no comparison, one request at a time."""

from __future__ import annotations

import json
import socket

from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.desired import DesiredRow
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.diff import birth_row
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.identity import Identity
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.protocol.schema import Schema

_CHUNK = 1 << 18
# How ovsdb-server ends a reply without an error; anything cleverer would cost the yardstick time.
_END = b'"error":null}'
_TIMEOUT = 300.0


class RawClient:
    """One connection to a unix socket."""

    def __init__(self, remote: str, database: str) -> None:
        self.database = database
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(_TIMEOUT)
        self._socket.connect(remote.removeprefix("unix:"))

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *_exception) -> None:
        self._socket.close()

    def call(self, method: str, params: list):
        """Send a request and return its result."""
        request = json.dumps({"method": method, "params": params, "id": 0}, separators=(",", ":"))
        self._socket.sendall(request.encode())
        buffer = bytearray()
        while True:
            data = self._socket.recv(_CHUNK)
            if not data:
                raise ConnectionError("the server closed the connection")
            buffer += data
            if buffer.endswith(_END):
                return json.loads(buffer)["result"]

    def transact(self, operations: list[dict]) -> list[dict]:
        """Run one transaction; ValueError when the server refused an operation."""
        results = self.call("transact", [self.database, *operations])
        if any(result and "error" in result for result in results):
            raise ValueError(f"the raw client was refused: {next(result for result in results if 'error' in result)}")
        return results


def operations(client: RawClient, rows: list, owner: str) -> tuple[list[list[dict]], list[dict]]:
    """Return what the engine has to work out: the inserts of each network, and the selects that read the same columns.

    The inserts are computed by the engine, before the clock starts, so that both write the same.
    """
    schema = Schema(client.call("get_schema", [client.database]))
    desired = DesiredRow(schema, Identity(owner), rows)
    desired.identify()
    for table in desired.columns:
        desired.encode_table(table)
    desired.check()
    networks: dict[str, list[dict]] = {}
    for wanted in desired.rows.values():
        insert = {"op": "insert", "table": wanted.row.table, "uuid": wanted.uuid, "row": birth_row(wanted)}
        networks.setdefault(wanted.unit, []).append(insert)
    selects = [
        {"op": "select", "table": table, "where": [], "columns": ["_uuid", *sorted({*columns, *_marks(schema, table)})]}
        for table, columns in desired.columns.items()
    ]
    return list(networks.values()), selects


def _marks(schema: Schema, table: str) -> tuple[str, ...]:
    return ("external_ids",) if schema.tables[table].marked else ()
