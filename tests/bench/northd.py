# SPDX-License-Identifier: Apache-2.0
"""ovn-northd beside the engine: how long it needs for what the engine wrote, and for small changes afterwards.

    python -m tests.bench.northd PLAN [--allocator LIBRARY] [--server-allocator LIBRARY] [--n-threads NUMBER]

Prints one line of JSON. There is no ovn-controller: what is measured is northd. The measure for changes is `recompute
of everything`, which `ovn-appctl inc-engine/recompute` starts with unchanged databases. `computations` has what its log
says: which node of northd's engine computed everything, why, and for how many milliseconds. `as ovn-nbctl waits` is
until `sb_cfg` of the Northbound, with `nb_cfg` in a transaction of its own; all others are as a run of Heddle waits.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.reconcile import Scope, reconcile
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.wait import Announcement, synchronise, wait_until
from ansible_collections.heddle.ovn.plugins.module_utils.render import southbound
from ansible_collections.heddle.ovn.plugins.module_utils.render.northbound import render_northbound
from ansible_collections.heddle.ovn.plugins.module_utils.render.southbound import render_southbound
from ansible_collections.heddle.ovn.plugins.module_utils.types.ovsdb_row import Row

from . import load
from .engine import EVERYTHING
from .report import RECOMPUTE
from .servers import ALLOCATOR, NORTHBOUND, SOUTHBOUND, processor_seconds, resident_megabytes, served, translating

LONGEST = 900.0
_COMPUTED = re.compile(r"node: (\w+), recompute \((.*)\) took (\d+)ms")


class Stopwatch:
    """Seconds of the engine and of northd for each step."""

    def __init__(self, northbound, southbound_server, northd: int) -> None:
        self._northbound, self._southbound, self.steps = northbound, southbound_server, {}
        self._processes = northd, southbound_server.process.pid
        self._log = northbound.folder / "northd.log"
        self._control("vlog/set", "inc_proc_eng:file:dbg")
        self._control("vlog/disable-rate-limit")

    def step(self, label: str, rows: list[Row], *, together: bool = True) -> None:
        """Apply rows, wait for northd, note both; `together`: as a run of Heddle waits."""
        announcement = Announcement() if together else None

        def apply() -> None:
            with self._northbound.client() as client:
                reconcile(client, NORTHBOUND, rows, owner=load.OWNER, scope=EVERYTHING, closing=announcement)

        self._measure(label, apply, announcement)

    def recompute(self) -> None:
        """Measure a computation of everything in which nothing changes."""
        self._measure(RECOMPUTE, lambda: self._control("inc-engine/recompute"), None)

    def settle(self) -> None:
        """Wait until northd has nothing left to do: it answers its own rows with another run."""
        self._reach(None)

    def _measure(self, label: str, change: Callable, announcement: Announcement | None) -> None:
        self.settle()
        logged, start = self._log.stat().st_size, time.perf_counter()
        before = [processor_seconds(process) for process in self._processes]
        change()
        applied = time.perf_counter()
        self._reach(announcement)
        done = time.perf_counter()
        with self._log.open(encoding="utf-8") as log:
            log.seek(logged)
            computed = [match.groups() for match in map(_COMPUTED.search, log) if match]
        self.steps[label] = {
            "engine": applied - start,
            "northd": done - applied,
            **{
                f"{name} processor": processor_seconds(process) - earlier
                for name, process, earlier in zip(("northd", "southbound"), self._processes, before, strict=True)
            },
            "computations": [
                (node, why, int(spent)) for node, why, spent in computed if int(spent) or node == "northd"
            ],
        }

    def _reach(self, announcement: Announcement | None) -> None:
        with self._northbound.client() as client, self._southbound.client(timeout=LONGEST) as reader:
            if announcement:
                synchronise(client, reader, LONGEST, announcement.number)
                return
            announcement = Announcement()
            announcement.committed(client.transact(NORTHBOUND, list(announcement.operations)))
            wait_until(
                client, NORTHBOUND, "NB_Global", [], ["sb_cfg"],
                lambda rows: rows[0]["sb_cfg"] >= announcement.number, LONGEST,
            )  # fmt: skip

    def _control(self, *arguments: str) -> None:
        self._northbound.tools.run("ovs-appctl", "-t", str(self._northbound.folder / "northd.ctl"), *arguments)


def write_chassis(server, plan: dict) -> None:
    """Write the other nodes, without which northd makes no port remote."""
    scope = Scope(tables=frozenset(southbound.TABLES))
    with server.client() as client:
        reconcile(client, SOUTHBOUND, render_southbound(plan, load.NODE), owner=load.OWNER, scope=scope)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("plan", type=Path, help=load.PLAN_HELP)
    parser.add_argument("--allocator", default=ALLOCATOR, help="library of malloc(3); '' is the C library")
    parser.add_argument("--server-allocator", default="", help="the same for both ovsdb-servers")
    parser.add_argument("--n-threads", type=int, default=2, help="threads of ovn-northd")
    options = parser.parse_args()
    plan = json.loads(options.plan.read_text(encoding="utf-8"))
    rows = render_northbound(plan, load.NODE)
    names = sorted({row.network for row in rows} - {"", "default"})
    added = names[len(names) // 2]
    without = [row for row in rows if row.network != added]
    port = next(row for row in rows if _is_port(row, names[0]))
    remote = {"requested-chassis": plan["nodes"]["node2"]["chassis"], "requested-tnl-key": "4000"}
    with (
        served(NORTHBOUND, SOUTHBOUND, allocator=options.server_allocator) as (northbound, southbound_server),
        translating(
            northbound, southbound_server, f"--n-threads={options.n_threads}", allocator=options.allocator
        ) as process,
    ):
        write_chassis(southbound_server, plan)
        watch = Stopwatch(northbound, southbound_server, process)
        watch.step("all networks", without)
        flows = len(southbound_server.rows("Logical_Flow", "priority"))
        watch.recompute()
        watch.step("one network more", rows)
        watch.step("one network less", without)
        watch.step("one network more, as ovn-nbctl waits", rows, together=False)
        watch.step("one column of a port", [_with(row, enabled=True) if row is port else row for row in rows])
        watch.step("one port more", [*rows, _another(port, "here")])
        watch.step("one remote port more", [*rows, _another(port, "elsewhere", type="remote", options=remote)])
        memory = {
            "northd": resident_megabytes(process),
            "southbound": resident_megabytes(southbound_server.process.pid),
        }
    print(json.dumps({"steps": watch.steps, "logical flows": flows, "megabytes": memory}))


def _with(row: Row, **columns) -> Row:
    return replace(row, columns={**row.columns, **columns})


def _another(port: Row, name: str, **columns) -> Row:
    return replace(_with(port, name=name, addresses={"0a:58:00:00:00:01"}, **columns), key=name)


def _is_port(row: Row, network: str) -> bool:
    return row.table == "Logical_Switch_Port" and row.network == network and row.columns.get("type", "") == ""


if __name__ == "__main__":
    main()
