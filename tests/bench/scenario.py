# SPDX-License-Identifier: Apache-2.0
"""Many objects of one kind: from manifests to one node's rows, beside the bare protocol, and northd's logical flows."""

from __future__ import annotations

import json

from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.narrowing import narrowed
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.protocol.trace import replies_equal
from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from ansible_collections.heddle.ovn.plugins.module_utils.render.northbound import TABLES, render_northbound
from ansible_collections.heddle.ovn.plugins.module_utils.types.ovsdb_row import Row

from . import load, raw
from .clock import Clock
from .engine import EVERYTHING, READS_PER_ROUND, apply, read_by, write_raw
from .northd import Stopwatch, write_chassis
from .servers import NORTHBOUND, SOUTHBOUND, served, translating

# Room for the workloads in the default network.
SETTINGS = {"cluster_subnets": ["10.128.0.0/14/20", "fd00:10:244::/48/64"]}
CHANGE = "one change"
# A change takes milliseconds, of which one in a few is not disturbed by others on a busy machine.
CHANGES_PER_ROUND = 20


def document(kind: str, api: str, name: str, namespace: str | None, spec: dict, labels: dict | None = None) -> str:
    """Return a manifest."""
    metadata: dict = {"name": name, "labels": labels or {}}
    if namespace:
        metadata["namespace"] = namespace
    return f"---\n{json.dumps({'apiVersion': api, 'kind': kind, 'metadata': metadata, 'spec': spec})}\n"


def rows_of(clock: Clock, label: str, text: str) -> tuple[dict, list[Row]]:
    """Return plan and rows of one node, with the time that each step takes."""
    found = clock.measure(f"{label}validate", load.resources, text)
    after = clock.measure(f"{label}admit", load.admitted, found, None, SETTINGS)
    plan = clock.measure(f"{label}plan", build_plan, after)
    assert len(plan["workloads"]) == text.count('"kind": "Workload"')
    return plan, clock.measure(f"{label}render", render_northbound, plan, load.NODE)


def one_round(clock: Clock, rows: list[Row], changed: list[Row], network: str) -> int:
    """Measure engine and bare protocol once; return the writing transactions of one change."""
    before, after = ([row for row in some if row.network in ("", network)] for some in (rows, changed))
    with served(NORTHBOUND, NORTHBOUND) as (plain, server), raw.RawClient(plain.remote, NORTHBOUND) as client:
        clock.watch(plain.process.pid, server.process.pid)
        networks, selects = raw.operations(client, rows, load.OWNER)
        clock.measure("raw create", write_raw, client, networks)
        clock.measure("create", apply, server, rows)
        for _read in range(READS_PER_ROUND):
            clock.measure("raw read", client.transact, selects)
            assert clock.measure("no change", apply, server, rows) == (0, 0)
            assert clock.measure("no change, as recorded", replies_equal, server.remote, read_by(server, rows), 600.0)
        for _change in range(CHANGES_PER_ROUND):
            changes, transactions = clock.measure(CHANGE, apply_difference, server, before, after)
            assert changes > 0
            assert apply_difference(server, after, before)[0] == changes
        apply_difference(server, before, after)
        assert apply(server, changed, EVERYTHING) == (0, 0)
        clock.watch()
    return transactions


def apply_difference(server, former: list[Row], rows: list[Row]) -> tuple[int, int]:
    """Find what differs and apply it as a host does; return (changes, writing transactions)."""
    return apply(server, *narrowed(former, rows, TABLES))


def flows(plan: dict, rows: list[Row]) -> int:
    """Return the logical flows that northd makes of rows."""
    with served(NORTHBOUND, SOUTHBOUND) as (northbound, southbound), translating(northbound, southbound) as process:
        write_chassis(southbound, plan)
        Stopwatch(northbound, southbound, process).step("all", rows)
        return len(southbound.rows("Logical_Flow"))


def print_figures(clock: Clock, without: str, rows: list[Row], tables: tuple[str, ...], change: str) -> None:
    """Print what the steps and the `change` took, with and `without` the objects that were measured."""
    seconds, processor = clock.best(), clock.least_processor()
    for label in ("validate", "admit", "plan", "render"):
        print(f"{label:36} {seconds[label]:8.3f} s, {without} {seconds[f'{without}: {label}']:.3f} s")
    print(f"{'rows of one node':36} {len(rows):8,}")
    for table in tables:
        print(f"{'  ' + table:36} {sum(row.table == table for row in rows):8,}")
    for name, over in (
        ("create", "raw create"),
        ("no change", "raw read"),
        ("no change, as recorded", "raw read"),
    ):
        ratios = f"{seconds[name] / seconds[over]:8.2f} x, processor {processor[name] / processor[over]:.2f} x"
        print(f"{f'{name} over {over}':36} {ratios} ({processor[name]:.3f} s)")
    print(f"{change:36} {seconds[CHANGE] * 1000:8.1f} ms, processor {processor[CHANGE] * 1000:.1f} ms")
