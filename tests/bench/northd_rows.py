# SPDX-License-Identifier: Apache-2.0
"""What ovn-northd makes of one network: logical flows by stage, and what each kind of row adds.

    python -m tests.bench.northd_rows [--networks 100]

The networks are primary Layer2 networks, IPv4 and IPv6, with external connectivity and a workload on each of three
nodes. Of each kind of row there is one run without it; its last columns are ratios to the run with all rows: logical
flows of a network, and processor time of northd for ten times `inc-engine/recompute`.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable

from ansible_collections.heddle.ovn.plugins.module_utils.render import render_northbound
from ansible_collections.heddle.ovn.plugins.module_utils.types.ovsdb_row import Row
from tests.pipeline import layer2, namespace, plan_of, with_gateways, workload

from . import load
from .northd import Stopwatch, write_chassis
from .report import RECOMPUTE
from .servers import NORTHBOUND, SOUTHBOUND, served, translating

# Processor time is counted in hundredths of a second.
RECOMPUTATIONS = 10


def is_remote_port(row: Row) -> bool:
    """Return whether a row is another node's port of a transit router."""
    return row.table == "Logical_Router_Port" and "requested-chassis" in row.columns["options"]


def is_workload(row: Row) -> bool:
    """Return whether a row is a workload's port."""
    return row.table == "Logical_Switch_Port" and "pod" in row.columns["external_ids"]


def of_table(table: str) -> Callable[[Row], bool]:
    """Return a test for rows of a table."""
    return lambda row: row.table == table


KINDS = {
    "static routes": of_table("Logical_Router_Static_Route"),
    "policies": of_table("Logical_Router_Policy"),
    "NAT": of_table("NAT"),
    "static MAC bindings": of_table("Static_MAC_Binding"),
    "gateway chassis": of_table("Gateway_Chassis"),
    "ports of other nodes": is_remote_port,
    "workload ports": is_workload,
}


def manifests(count: int) -> str:
    """Return the YAML of that many networks."""
    return "".join(
        namespace(name)
        + layer2(name, "net", "10.200.0.0/16", "fd00:200::/64")
        + "".join(workload(name, f"w{node}", f"node{node}") for node in (1, 2, 3))
        for name in (f"tenant{number}" for number in range(count))
    )


def measure(plan: dict, rows: list[Row]) -> tuple[Counter, float]:
    """Return the logical flows by stage, and the processor seconds of the recomputations."""
    with served(NORTHBOUND, SOUTHBOUND) as (northbound, southbound), translating(northbound, southbound) as process:
        write_chassis(southbound, plan)
        watch = Stopwatch(northbound, southbound, process)
        watch.step("all", rows)
        flows = Counter(dict(row["external_ids"][1])["stage-name"] for row in southbound.rows("Logical_Flow"))
        seconds = 0.0
        for _again in range(RECOMPUTATIONS):
            watch.recompute()
            seconds += watch.steps[RECOMPUTE]["northd processor"]
    return flows, seconds


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--networks", type=int, default=100)
    count = parser.parse_args().networks
    plan = plan_of(manifests(count), hosts=with_gateways("shared"))
    rows = render_northbound(plan, load.NODE)
    shared = [row for row in rows if row.network in ("", "default")]
    common, _seconds = measure(plan, shared)
    flows, seconds = measure(plan, rows)
    each = {stage: (number - common[stage]) / count for stage, number in flows.items()}
    total = sum(each.values())
    print(f"{count} networks, {total:.1f} logical flows each, {(len(rows) - len(shared)) / count:.1f} rows each\n")
    print("stage                      flows of a network")
    for stage, number in sorted(each.items(), key=lambda item: -item[1]):
        if number >= 0.5:
            print(f"{stage:25}  {number:18.1f}")
    print("\nwithout                    rows of a network  flows  processor")
    for kind, matches in KINDS.items():
        print(f"  {kind}", file=sys.stderr, flush=True)
        kept = [row for row in rows if not row.network or row.network == "default" or not matches(row)]
        fewer, spent = measure(plan, kept)
        left = (fewer.total() - common.total()) / count
        print(f"{kind:25}  {(len(rows) - len(kept)) / count:17.1f}  {left / total:4.2f} x  {spent / seconds:7.2f} x")


if __name__ == "__main__":
    main()
