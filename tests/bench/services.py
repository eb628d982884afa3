# SPDX-License-Identifier: Apache-2.0
"""Services at scale: the decision, one node's rows beside the bare protocol, and what northd makes of them.

    python -m tests.bench.services [--networks 50] [--rounds 3]

Each namespace has a primary network (half Layer2, half Layer3, dual stack), 20 workloads on three nodes and 20 Services
of two ports with 10 of them as endpoints; in the end one workload of a network is not ready any more.
"""

from __future__ import annotations

import argparse

from . import load
from .clock import Clock
from .scenario import document, flows, one_round, print_figures, rows_of

WORKLOADS, SERVICES, HALVES = 20, 20, 2
PORTS = [{"name": "http", "port": 80, "targetPort": 8080}, {"name": "dns", "port": 53, "protocol": "UDP"}]


def manifests(count: int, *, unready: int | None = None, with_services: bool = True) -> str:
    """Return the YAML; in the namespace `unready` one workload is not ready."""
    text = load.manifests(count)
    for number in range(count):
        namespace = f"tenant{number}"
        for index in range(WORKLOADS):
            spec = {"node": f"node{index % 3 + 1}", "ready": not (unready == number and index == 0)}
            text += document("Workload", "heddle.dev/v1", f"w{index}", namespace, spec, {"half": f"h{index % HALVES}"})
        for index in range(SERVICES if with_services else 0):
            spec = {"selector": {"half": f"h{index % HALVES}"}, "ports": PORTS, "ipFamilyPolicy": "PreferDualStack"}
            text += document("Service", "v1", f"s{index}", namespace, spec)
    return text


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--networks", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    count, clock = options.networks, Clock()
    plan, rows = rows_of(clock, "", manifests(count))
    bare_plan, bare_rows = rows_of(clock, "without Services: ", manifests(count, with_services=False))
    _plan, changed = rows_of(clock, "again: ", manifests(count, unready=count // 2))
    for _round in range(options.rounds):
        transactions = one_round(clock, rows, changed, f"tenant{count // 2}_net")
    tables = ("Load_Balancer", "Load_Balancer_Group")
    print_figures(clock, "without Services", rows, tables, "one workload not ready")
    print(f"{'  transactions':36} {transactions:8}")
    more = (flows(plan, rows) - flows(bare_plan, bare_rows)) / (count * SERVICES)
    print(f"{'logical flows of a Service':36} {more:8.1f}")


if __name__ == "__main__":
    main()
