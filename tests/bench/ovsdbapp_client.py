# SPDX-License-Identifier: Apache-2.0
"""The same rows written with ovsdbapp, and read again.

    python -m tests.bench.ovsdbapp_client PLAN

Which parser python-ovs uses for JSON matters threefold, so it is printed too. Prints one line of JSON.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import ovs.json
from ovsdbapp.backend.ovs_idl import command, connection
from ovsdbapp.schema.ovn_northbound import impl_idl

from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.values import to_python

from . import load, raw
from .clock import Clock
from .engine import apply
from .servers import NORTHBOUND, served

TIMEOUT = 180


def connect(remote: str):
    """Return an API object whose copy of the database is complete."""
    idl = connection.OvsdbIdl.from_server(remote, NORTHBOUND)
    return impl_idl.OvnNbApiIdlImpl(connection.Connection(idl, TIMEOUT))


class CreateRows(command.BaseCommand):
    """Inserts rows as the raw operations say; `known` maps their uuids to rows that exist."""

    def __init__(self, api, operations: list[dict], known: dict) -> None:
        super().__init__(api)
        self._operations, self._known, self._made = operations, known, {}

    def run_idl(self, txn) -> None:
        """Called within the transaction."""
        tables = self.api.idl.tables
        self._made = {operation["uuid"]: txn.insert(tables[operation["table"]]) for operation in self._operations}
        for operation in self._operations:
            row = self._made[operation["uuid"]]
            for column, wire in operation["row"].items():
                setattr(row, column, to_python(wire, {**self._known, **self._made}))

    def post_commit(self, txn) -> None:
        """Called when the server has taken it."""
        for operation in self._operations:
            inserted = txn.get_insert_uuid(self._made[operation["uuid"]].uuid)
            self._known[operation["uuid"]] = self.api.idl.tables[operation["table"]].rows[inserted]


def create(remote: str, networks: list[list[dict]]) -> None:
    """Write the rows that the raw operations insert, one transaction per network: its fastest way."""
    api, known = connect(remote), {}
    for number, operations in enumerate(networks):
        # Networks refer to the common rows, which come first, and to their own rows.
        api_known = known if number == 0 else dict(known)
        with api.transaction(check_error=True) as transaction:
            transaction.add(CreateRows(api, operations, api_known))
    api.ovsdb_connection.stop()


def read(remote: str) -> None:
    """Fetch everything, which every process that uses ovsdbapp does first."""
    connect(remote).ovsdb_connection.stop()


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("plan", type=Path, help=load.PLAN_HELP)
    rows = load.rows_of(parser.parse_args().plan)
    clock = Clock()
    with served(NORTHBOUND, NORTHBOUND) as (theirs, ours):
        with raw.RawClient(theirs.remote, NORTHBOUND) as client:
            networks, _selects = raw.operations(client, rows, load.OWNER)
        networks.sort(key=lambda operations: operations[0]["table"] != "NB_Global")
        clock.measure("ovsdbapp create", create, theirs.remote, networks)
        clock.measure("create", apply, ours, rows)
        for _again in range(2):
            clock.measure("ovsdbapp read", read, theirs.remote)
            clock.measure("no change", apply, ours, rows)
        assert len(theirs.rows("Logical_Router_Port", "name")) == len(ours.rows("Logical_Router_Port", "name"))
    print(json.dumps({"seconds": clock.best(), "parser": ovs.json.PARSER}))


if __name__ == "__main__":
    main()
