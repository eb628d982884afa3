# SPDX-License-Identifier: Apache-2.0
"""Where a comparison of everything without a change spends the client's processor time.

    python -m tests.bench.comparison [--networks 1000] [--services 50] [--policies 100] [--rounds 10]

The replies of a real ovsdb-server are kept and given to the engine again and again, so that nothing but the client is
measured: milliseconds, the least of all rounds. `decode` is what the bare protocol needs too.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import time
from collections import Counter
from collections.abc import Iterator

from ansible_collections.heddle.ovn.plugins.module_utils.common.text.text_table import table
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb import reconcile as engine
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb import rows as reading
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.current import Current
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.desired import DesiredRow
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.transaction import TransactionPlan
from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from ansible_collections.heddle.ovn.plugins.module_utils.render.northbound import render_northbound

from . import load, policies, scenario, services
from .engine import EVERYTHING, apply
from .servers import NORTHBOUND, served

PARTS = {
    "collect the desired rows": (DesiredRow, "__init__"),
    "uuids and members of rows": (DesiredRow, "identify"),
    "encode the desired rows": (DesiredRow, "encode_table"),
    "compare": (reading, "forget_equal"),
    "check parents": (DesiredRow, "check"),
    "find rows": (Current, "locate"),
    "plan without a difference": (TransactionPlan, "__init__"),
}
DECODE, REST, TOTAL = "decode", "rest", "all"


class Replayed:
    """A client that has the replies of a server, and decodes each again when it is asked for."""

    def __init__(self, client, spent: Counter) -> None:
        self._client, self._spent = client, spent
        self._schema = client.get_schema(NORTHBOUND)
        self._texts: dict[str, str] = {}

    def get_schema(self, _database: str) -> dict:
        """Return the schema."""
        return self._schema

    def start(self, database: str, operations: list) -> str:
        """Return what `finish` needs; only the first time the server is asked."""
        request = json.dumps(operations)
        if request not in self._texts:
            self._texts[request] = json.dumps(self._client.transact(database, operations))
        return request

    def finish(self, request: str) -> list:
        """Decode a reply."""
        with timed(self._spent, DECODE):
            return json.loads(self._texts[request])

    def transact(self, database: str, operations: list) -> list:
        """Return the reply to a transaction."""
        return self.finish(self.start(database, operations))

    def pipeline(self, _database: str, transactions) -> Iterator:
        """Without a change there is nothing to write."""
        assert not list(transactions)
        return iter(())


@contextlib.contextmanager
def timed(spent: Counter, label: str) -> Iterator[None]:
    """Add the processor time of a block."""
    began = time.process_time()
    try:
        yield
    finally:
        spent[label] += time.process_time() - began


@contextlib.contextmanager
def watched(spent: Counter) -> Iterator[None]:
    """Add the processor time of the engine's parts while the block runs."""
    former = {label: getattr(*place) for label, place in PARTS.items()}

    def wrapped(label: str):
        def call(*arguments):
            with timed(spent, label):
                return former[label](*arguments)

        return call

    try:
        for label, (owner, name) in PARTS.items():
            setattr(owner, name, wrapped(label))
        yield
    finally:
        for label, (owner, name) in PARTS.items():
            setattr(owner, name, former[label])


def costs(rows: list, rounds: int) -> dict[str, float]:
    """Return the milliseconds of each part."""
    spent: Counter = Counter()
    found: list[Counter] = []
    with served(NORTHBOUND) as (server,):
        apply(server, rows)
        with server.client() as client, watched(spent):
            replayed = Replayed(client, spent)
            for _round in range(rounds + 1):
                gc.collect()
                spent.clear()
                with timed(spent, TOTAL):
                    outcome = engine.reconcile(replayed, NORTHBOUND, rows, owner=load.OWNER, scope=EVERYTHING)
                assert not outcome.changes
                found.append(spent.copy())
    # The first round asks the server.
    best = {label: 1000 * min(one[label] for one in found[1:]) for label in (DECODE, *PARTS, TOTAL)}
    best[REST] = best[TOTAL] - sum(best[label] for label in (DECODE, *PARTS))
    return {"rows": len(rows), **{label: best[label] for label in (DECODE, *PARTS, REST, TOTAL)}}


def rows_of(text: str) -> list:
    """Return the rows of one node."""
    return render_northbound(build_plan(load.admitted(load.resources(text), None, scenario.SETTINGS)), load.NODE)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--networks", type=int, default=1000, help="networks without workloads")
    parser.add_argument("--services", type=int, default=50, help="networks with 20 Services each")
    parser.add_argument("--policies", type=int, default=100, help="namespaces with 10 policies each")
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    texts = {
        f"{options.networks:,} networks": load.manifests(options.networks),
        f"{options.services * services.SERVICES:,} Services": services.manifests(options.services),
        f"{options.policies * policies.POLICIES:,} policies": policies.manifests(options.policies),
    }
    every = [costs(rows_of(text), options.rounds) for text in texts.values()]
    title = f"milliseconds of the client's processor; load {os.getloadavg()[0]:.1f}"
    lines = [[label, *(f"{one[label]:,.0f}" for one in every)] for label in every[0]]
    print("\n".join(table(title, ["", *texts], lines)))


if __name__ == "__main__":
    main()
