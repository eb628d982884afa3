# SPDX-License-Identifier: Apache-2.0
"""What ovn-northd makes of one network: logical flows by stage, and what each kind of row adds.

    python -m tests.bench.northd_rows [--networks 100]

The networks are primary Layer2 networks, IPv4 and IPv6, with external connectivity and a workload on each of three
nodes. Each has a Service, whose endpoints these workloads are, and a NetworkPolicy that selects all of them. Of each
kind of row there is one run without it; its last columns are ratios to the run with all rows: logical flows of a
network, and processor time of northd for ten times `inc-engine/recompute`. The first line is without the rows of the
Service and the policy, so it is what a network costs by itself.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from ansible_collections.heddle.ovn.plugins.module_utils.common.text.text_table import table
from ansible_collections.heddle.ovn.plugins.module_utils.render.northbound import render_northbound
from ansible_collections.heddle.ovn.plugins.module_utils.types.ovsdb_row import Ref, Row
from tests.pipeline import layer2, namespace, plan_of

from . import load
from .northd import Stopwatch, write_chassis
from .report import RECOMPUTE
from .scenario import document
from .servers import NORTHBOUND, SOUTHBOUND, served, translating

# Processor time is counted in hundredths of a second.
RECOMPUTATIONS = 10


def is_remote_port(row: Row) -> bool:
    """Return whether a row is another node's port of a transit router."""
    return row.table == "Logical_Router_Port" and "requested-chassis" in row.columns["options"]


def is_workload(row: Row) -> bool:
    """Return whether a row is a workload's port."""
    return row.table == "Logical_Switch_Port" and "pod" in row.columns["external_ids"]


def of_table(*names: str) -> Callable[[Row], bool]:
    """Return a test for rows of tables."""
    return lambda row: row.table in names


KINDS = {
    "static routes": of_table("Logical_Router_Static_Route"),
    "policies": of_table("Logical_Router_Policy"),
    "NAT": of_table("NAT"),
    "ACLs": of_table("ACL"),
    "load balancers": of_table("Load_Balancer", "Load_Balancer_Group"),
    "DNS": of_table("DNS"),
    # The row is common to all networks; the routers of networks do not refer to it.
    "COPP": of_table("Copp"),
    "static MAC bindings": of_table("Static_MAC_Binding"),
    "gateway chassis": of_table("Gateway_Chassis"),
    "ports of other nodes": is_remote_port,
    "workload ports": is_workload,
}


def manifests(count: int, *, alone: bool = False) -> str:
    """Return the YAML of that many networks; `alone`: without Services and policies."""
    return "".join(
        namespace(name)
        + layer2(name, "net", "10.200.0.0/16", "fd00:200::/64")
        + "".join(
            document("Workload", "heddle.dev/v1", f"w{node}", name, {"node": f"node{node}"}, {"app": "web"})
            for node in (1, 2, 3)
        )
        + ("" if alone else _service(name) + _policy(name))
        for name in (f"tenant{number}" for number in range(count))
    )


def _service(namespace_name: str) -> str:
    ports = [{"name": "http", "port": 80, "targetPort": 8080}, {"name": "dns", "port": 53, "protocol": "UDP"}]
    spec = {"selector": {"app": "web"}, "ports": ports, "ipFamilyPolicy": "PreferDualStack"}
    return document("Service", "v1", "web", namespace_name, spec)


def _policy(namespace_name: str) -> str:
    spec = {
        "podSelector": {},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"from": [{"podSelector": {"matchLabels": {"app": "web"}}}], "ports": [{"port": 80}]}],
        "egress": [{"to": [{"podSelector": {}}]}, {"to": [{"ipBlock": {"cidr": "192.0.2.0/24"}}]}],
    }
    return document("NetworkPolicy", "networking.k8s.io/v1", "web", namespace_name, spec)


def is_common(row: Row) -> bool:
    """Return whether a row is of no network of the load."""
    return row.network in ("", "default")


def without(rows: list[Row], matches: Callable[[Row], bool]) -> list[Row]:
    """Return the rows without those of networks that match, and without references of networks to what matches."""
    gone = {(row.table, row.key) for row in rows if matches(row)}

    def kept(value: object) -> object:
        if isinstance(value, Ref):
            return set() if (value.table, value.key) in gone else value
        return {one for one in value if kept(one) == one} if isinstance(value, set) else value

    return [
        row if is_common(row) else replace(row, columns={name: kept(value) for name, value in row.columns.items()})
        for row in rows
        if is_common(row) or not matches(row)
    ]


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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", type=int, default=100)
    count = parser.parse_args().networks
    plans = [plan_of(manifests(count, alone=alone), hosts=load.nodes(gateways=True)) for alone in (False, True)]
    (plan, rows), (alone_plan, alone) = ((one, render_northbound(one, load.NODE)) for one in plans)
    common, _seconds = measure(plan, [row for row in rows if is_common(row)])
    flows, seconds = measure(plan, rows)

    def figures(of: list[Row], found: Counter) -> tuple[float, float]:
        """Return the rows and logical flows of a network."""
        return sum(not is_common(row) for row in of) / count, (found.total() - common.total()) / count

    def line(label: str, of_plan: dict, fewer: list[Row]) -> list[str]:
        print(f"  {label}", file=sys.stderr, flush=True)
        found, spent = measure(of_plan, fewer)
        left, remaining = figures(fewer, found)
        return [
            label, f"{own - left:.1f}", f"{total - remaining:.1f}", f"{remaining / total:.2f} x",
            f"{spent / seconds:.2f} x",
        ]  # fmt: skip

    own, total = figures(rows, flows)
    lines = [line("Service and NetworkPolicy", alone_plan, alone)]
    lines += [line(kind, plan, without(rows, matches)) for kind, matches in KINDS.items()]
    each = {stage: (number - common[stage]) / count for stage, number in flows.items()}
    largest = [[stage, f"{number:.1f}"] for stage, number in sorted(each.items(), key=lambda item: -item[1])]
    print(f"{count} networks, {own:.1f} rows and {total:.1f} logical flows each\n")
    print("\n".join(table("stages", ["stage", "flows"], [one for one in largest if float(one[1]) >= 0.5])))
    header = ["without", "rows", "flows", "flows left", "processor"]
    print("\n".join(table("\nrows and flows of a network, one kind left out", header, lines)))


if __name__ == "__main__":
    main()
