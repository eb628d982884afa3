# SPDX-License-Identifier: Apache-2.0
"""The engine beside the bare protocol: create, read without a change, change one network, remove one.

    python -m tests.bench.engine PLAN [--rounds 3]

Raw and engine take turns, each with a database of its own that holds the same rows. Prints one line of JSON.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.protocol.trace import replies_equal, traced
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.reconcile import Scope, reconcile
from ansible_collections.heddle.ovn.plugins.module_utils.render.northbound import TABLES

from . import load, raw
from .clock import Clock
from .servers import NORTHBOUND, served

READS_PER_ROUND = 3
EVERYTHING = Scope(tables=frozenset(TABLES))


class Counting:
    """The engine's client, with its writing transactions counted."""

    def __init__(self, client) -> None:
        self._client, self.writes = client, 0

    def __getattr__(self, name: str):
        return getattr(self._client, name)

    def pipeline(self, database, transactions):
        """Count what goes through."""

        def counted():
            for operations in transactions:
                self.writes += 1
                yield operations

        return self._client.pipeline(database, counted())


def apply(server, rows: list, scope: Scope = EVERYTHING) -> tuple[int, int]:
    """Run the engine with a connection of its own; return (changes, writing transactions)."""
    with server.client() as client:
        counting = Counting(client)
        outcome = reconcile(counting, NORTHBOUND, rows, owner=load.OWNER, scope=scope)
    return len(outcome.changes), counting.writes


def read_by(server, rows: list) -> dict:
    """Return what a comparison without a change reads, as a host records it."""
    with server.client() as client, traced(client) as trace:
        reconcile(client, NORTHBOUND, rows, owner=load.OWNER, scope=EVERYTHING)
        return trace.read()


def write_raw(client: raw.RawClient, networks: list[list[dict]]) -> None:
    """Create everything, one transaction per network."""
    for operations in networks:
        client.transact(operations)


def one_round(clock: Clock, rows: list, count: int) -> dict[str, int]:
    """Measure everything once; return the numbers of writing transactions."""
    middle = f"tenant{count // 2}_net"
    only = frozenset({middle})
    own = [row for row in rows if row.network in ("", middle)]
    edited = [replace(row, columns={**row.columns, "nexthop": "100.99.0.9"}) if _is_route(row) else row for row in own]
    former = tuple(row for row in own if row.network)
    shared = [row for row in own if not row.network]
    with served(NORTHBOUND, NORTHBOUND) as (plain, server), raw.RawClient(plain.remote, NORTHBOUND) as client:
        networks, selects = raw.operations(client, rows, load.OWNER)
        clock.measure("raw create", write_raw, client, networks)
        del networks
        created = clock.measure("create", apply, server, rows)
        for _read in range(READS_PER_ROUND):
            clock.measure("raw read", client.transact, selects)
            unchanged = clock.measure("no change", apply, server, rows)
            assert clock.measure("no change, as recorded", replies_equal, server.remote, read_by(server, rows), 600.0)
        for _again in range(READS_PER_ROUND):
            scope = Scope(networks=only, former=former)
            checked = clock.measure("one network, no change", apply, server, own, scope)
            changed = clock.measure("one network, changed", apply, server, edited, scope)
            back = clock.measure("one network, changed", apply, server, own, scope)
            removed = clock.measure("one network, removed", apply, server, shared, scope)
            apply(server, own, scope)
        clock.measure("one network, by search", apply, server, own, Scope(tables=frozenset(TABLES), networks=only))
        final = apply(server, rows)
    assert (created[0], unchanged, checked, final) == (len(rows), (0, 0), (0, 0), (0, 0))
    assert changed[0] == back[0] > 0 and removed[0] == len(former)
    return {"create": created[1], "no change": unchanged[1], "one network, changed": changed[1]}


def _is_route(row) -> bool:
    return row.table == "Logical_Router_Static_Route" and row.network != ""


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("plan", type=Path, help=load.PLAN_HELP)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    rows = load.rows_of(options.plan)
    count = len({row.network for row in rows} - {"", "default"})
    clock = Clock()
    for _round in range(options.rounds):
        transactions = one_round(clock, rows, count)
    print(json.dumps({"rows": len(rows), "seconds": clock.best(), "transactions": transactions}))


if __name__ == "__main__":
    main()
