# SPDX-License-Identifier: Apache-2.0
"""How long another client waits for its own small write while a database is written.

    python -m tests.bench.waiting PLAN

A process of its own writes all the time. Its waits while nothing else runs are this machine's own.
Prints one line of JSON, in seconds.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
from pathlib import Path

from . import load, raw
from .engine import EVERYTHING, apply, write_raw
from .servers import NORTHBOUND, served

IDLE_SECONDS = 2.0
_PAUSE = 0.001


def probe(remote: str, ready, stop, result) -> None:
    """Write again and again until stopped; return the longest wait and the number of writes."""
    insert = {"op": "insert", "table": "Address_Set", "row": {"name": "probe"}}
    delete = {"op": "delete", "table": "Address_Set", "where": [["name", "==", "probe"]]}
    waits = []
    with raw.RawClient(remote, NORTHBOUND) as client:
        client.transact([insert, delete])
        ready.set()
        while not stop.is_set() or not waits:
            start = time.perf_counter()
            client.transact([insert, delete])
            waits.append(time.perf_counter() - start)
            time.sleep(_PAUSE)
    waits.sort()
    result.put({"longest": waits[-1], "99 of 100": waits[len(waits) * 99 // 100], "writes": len(waits)})


def probed(remote: str, function, *arguments) -> dict:
    """Return what a probe saw while a function ran."""
    context = multiprocessing.get_context("spawn")
    ready, stop, result = context.Event(), context.Event(), context.Queue()
    process = context.Process(target=probe, args=(remote, ready, stop, result))
    process.start()
    ready.wait(30)
    try:
        function(*arguments)
    finally:
        stop.set()
        seen = result.get(timeout=30)
        process.join()
    return seen


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("plan", type=Path, help=load.PLAN_HELP)
    rows = load.rows_of(parser.parse_args().plan)
    figures = {}
    with served(NORTHBOUND, NORTHBOUND) as (plain, server), raw.RawClient(plain.remote, NORTHBOUND) as client:
        networks, selects = raw.operations(client, rows, load.OWNER)
        figures["idle"] = probed(server.remote, time.sleep, IDLE_SECONDS)
        figures["raw create"] = probed(plain.remote, write_raw, client, networks)
        figures["create"] = probed(server.remote, apply, server, rows, EVERYTHING)
        figures["raw read"] = probed(plain.remote, client.transact, selects)
        figures["no change"] = probed(server.remote, apply, server, rows, EVERYTHING)
        figures["remove all"] = probed(server.remote, apply, server, rows[:1], EVERYTHING)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
