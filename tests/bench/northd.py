# SPDX-License-Identifier: Apache-2.0
"""ovn-northd beside the engine: how long it needs for what the engine wrote, and for small changes afterwards.

    python -m tests.bench.northd PLAN [NORTHD OPTION ...]

Prints one line of JSON. There is no ovn-controller, so what is measured is `sb_cfg`.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path

from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.reconcile import Scope
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.wait import wait_until

from . import load
from .engine import apply
from .servers import NORTHBOUND, SOUTHBOUND, processor_seconds, resident_megabytes, served, translating

LONGEST = 900.0


def synchronise(server) -> None:
    """Wait until northd has translated everything that was written before."""
    with server.client() as client:
        mutate = {"op": "mutate", "table": "NB_Global", "where": [], "mutations": [["nb_cfg", "+=", 1]]}
        select = {"op": "select", "table": "NB_Global", "where": [], "columns": ["nb_cfg"]}
        target = client.transact(NORTHBOUND, [mutate, select])[1]["rows"][0]["nb_cfg"]
        wait_until(client, NORTHBOUND, "NB_Global", [], ["sb_cfg"], lambda rows: rows[0]["sb_cfg"] >= target, LONGEST)


class Stopwatch:
    """Seconds of the engine and of northd for each step."""

    def __init__(self, server, northd: int) -> None:
        self._server, self._northd, self.steps = server, northd, {}

    def step(self, label: str, rows: list, scope: Scope | None = None) -> None:
        """Apply rows, wait for northd, note both."""
        before, start = processor_seconds(self._northd), time.perf_counter()
        apply(self._server, rows, *([scope] if scope else []))
        applied = time.perf_counter()
        synchronise(self._server)
        self.steps[label] = {
            "engine": applied - start,
            "northd": time.perf_counter() - applied,
            "northd processor": processor_seconds(self._northd) - before,
        }


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("plan", type=Path)
    options, northd_options = parser.parse_known_args()
    rows = load.rows_of(options.plan)
    names = sorted({row.network for row in rows} - {"", "default"})
    added = names[len(names) // 2]
    without = [row for row in rows if row.network != added]
    toggled = [_enabled(row) if _is_port(row, names[0]) else row for row in rows]
    with (
        served(NORTHBOUND, SOUTHBOUND) as (northbound, southbound),
        translating(northbound, southbound, *northd_options) as process,
    ):
        watch = Stopwatch(northbound, process)
        watch.step("all networks", without)
        flows = len(southbound.rows("Logical_Flow", "priority"))
        watch.step("one network more", rows)
        watch.step("one column of a port", toggled)
        memory = {"northd": resident_megabytes(process), "southbound": resident_megabytes(southbound.process.pid)}
    print(json.dumps({"steps": watch.steps, "logical flows": flows, "megabytes": memory}))


def _enabled(row):
    return replace(row, columns={**row.columns, "enabled": True})


def _is_port(row, network: str) -> bool:
    return row.table == "Logical_Switch_Port" and row.network == network and row.columns.get("type", "") == ""


if __name__ == "__main__":
    main()
