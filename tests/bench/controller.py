# SPDX-License-Identifier: Apache-2.0
"""What ovn-controller computes when a host gets one network more, and when that is removed again.

    python -m scripts.ovn_root .venv/bin/python -m tests.bench.controller [--networks 60] [--changes 3]

A host with ovn-northd, ovn-controller and Open vSwitch in user space. Its networks are primary ones, half Layer2 and
half Layer3, IPv4 and IPv6, with external connectivity and a workload on each of three nodes. ovn-controller runs with
the C library's allocator and with jemalloc, one after the other, and prints for each change the median of its processor
seconds and how often it computed all flows.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import replace
from unittest import mock

from ansible_collections.heddle.ovn.plugins.module_utils.agent import northd_recompute, topology
from ansible_collections.heddle.ovn.plugins.module_utils.agent.comparison_record import ComparisonRecord
from ansible_collections.heddle.ovn.plugins.module_utils.agent.context import NodeContext
from ansible_collections.heddle.ovn.plugins.module_utils.common.text.text_table import table
from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from tests.live.gateway.conftest import interface_of
from tests.pipeline import workload

from . import load
from .clock import processor_time
from .endpoint_change import running_host
from .servers import ALLOCATOR, resident_megabytes

NODES = ("node1", "node2", "node3")
MORE, LESS = "one network more", "one network less"
# What the last network's change may still cause is over when the processor time stood still for so many looks.
_LOOKS, _PAUSE, _STILL = 6, 0.5, 0.03
# A port of br-int is added with one transaction of ovs-vsctl each time.
_PORTS = 25


def plans(networks: int) -> dict[str, dict]:
    """Return the plans with that many networks and one more: what is allocated stays."""
    found, state = {}, None
    for name, count in ((LESS, networks), (MORE, networks + 1)):
        text = load.manifests(count) + "".join(
            workload(f"tenant{number}", f"w{node[-1]}", node) for number in range(count) for node in NODES
        )
        state = load.admitted(load.resources(text), state, gateways=True)
        found[name] = build_plan(state)
    return found


def finished(process: int) -> float:
    """Wait until a process does nothing; return its processor seconds."""
    last, still = processor_time(process), 0
    while still < _LOOKS:
        time.sleep(_PAUSE)
        now = processor_time(process)
        still, last = (still + 1 if now - last < _STILL else 0), now
    return last


def measure(networks: int, changes: int, allocator: str) -> dict[str, tuple[float, float]]:
    """Return by change the medians of ovn-controller's processor seconds and of how often it computed all flows.

    "resident" has the largest resident size in MB.
    """
    plan, found = plans(networks), {MORE: [], LESS: []}
    with (
        running_host(controller_allocator=allocator) as (machine, _northbound, _southbound),
        mock.patch.object(northd_recompute, "PENDING_FILE", str(machine.folder / "northd-pending")),
    ):
        record = ComparisonRecord("bench", str(machine.folder / "compared.json"))
        context = NodeContext("node1", "", write=True, record=record)
        topology.apply_topology(context, plan[LESS])
        ports = [
            (interface_of(f"tenant{number}"), plan[LESS]["workloads"][f"tenant{number}/w1"]["interfaces"][-1]["port"])
            for number in range(networks)
        ]
        for first in range(0, len(ports), _PORTS):
            machine.attach(*ports[first : first + _PORTS])
        process, log = machine.processes[-1].pid, machine.folder / "controller.log"
        for _round in range(changes):
            for name, former in ((MORE, LESS), (LESS, MORE)):
                before, logged = finished(process), log.stat().st_size
                topology.apply_topology(replace(context, former=plan[former]), plan[name])
                used = finished(process) - before
                computed = log.read_bytes()[logged:].count(b"node: logical_flow_output, recompute")
                found[name].append((used, computed))
        resident = resident_megabytes(process)
    medians = {name: tuple(map(statistics.median, zip(*one, strict=True))) for name, one in found.items()}
    return {**medians, "resident": (resident, 0)}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--networks", type=int, default=60)
    parser.add_argument("--changes", type=int, default=3)
    options = parser.parse_args()
    plain, jemalloc = (measure(options.networks, options.changes, one) for one in ("", ALLOCATOR))
    rows = [
        [name, *(f"{one[name][0]:.2f} s, {one[name][1]:g} x" for one in (plain, jemalloc)),
         f"{jemalloc[name][0] / plain[name][0]:.2f} x"]
        for name in (MORE, LESS)
    ]  # fmt: skip
    sizes = [one["resident"][0] for one in (plain, jemalloc)]
    rows.append(["resident size", *(f"{one:.0f} MB" for one in sizes), f"{sizes[1] / sizes[0]:.2f} x"])
    title = f"{options.networks} networks: processor time of ovn-controller, and how often it computed all flows"
    print("\n".join(table(title, ["", "C library", "jemalloc", "ratio"], rows)))


if __name__ == "__main__":
    main()
