# SPDX-License-Identifier: Apache-2.0
"""What a host of a fleet does with the plan: it keeps and reads the file, renders, and writes its Northbound.

`tests.bench.fleet` measures it for each fleet. What reads the plan is a process of its own, so that its memory is that
of a host:

    python -m tests.bench.fleet_hosts keep PACKED FILE NODE
    python -m tests.bench.fleet_hosts render FILE NODE

Each prints one line of JSON: the figures after each step.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import mean

from ansible_collections.heddle.ovn.plugins.module_utils.agent.module_runner import read_plan_file
from ansible_collections.heddle.ovn.plugins.module_utils.agent.plan_file import keep_plan
from ansible_collections.heddle.ovn.plugins.module_utils.common.serialization import pack, unpack
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.narrowing import narrowed
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.protocol.trace import replies_equal
from ansible_collections.heddle.ovn.plugins.module_utils.render.common.changed_networks import changed_networks
from ansible_collections.heddle.ovn.plugins.module_utils.render.common.host_plan import host_plan
from ansible_collections.heddle.ovn.plugins.module_utils.render.gateway.bridge_flows import render_bridge_flows
from ansible_collections.heddle.ovn.plugins.module_utils.render.host.links_and_routes import render_host_network
from ansible_collections.heddle.ovn.plugins.module_utils.render.northbound import TABLES, render_northbound

from . import ROOT
from .clock import Clock
from .engine import apply, read_by
from .servers import NORTHBOUND, resident_megabytes, served

# Seconds that the server may be silent.
_READ_TIMEOUT = 600.0
_STEPS = ("create", "no change", "no change, as recorded", "one workload replaced")


def sampled(hosts: int) -> list[str]:
    """Return the first host of a fleet, the last one, and one between."""
    return [f"node{number}" for number in sorted({1, hosts // 2 + 1, hosts})]


def render(plan: dict, node: str) -> int:
    """Render one host; return its rows, flows and routes."""
    rows, flows = render_northbound(plan, node), render_bridge_flows(plan, node)
    return len(rows) + len(flows) + len(render_host_network(plan, node).routes)


def write(plan: dict, changed: dict, replaced: dict[str, tuple[str, str]]) -> dict[str, float]:
    """Reconcile the Northbound of some hosts, each on a real ovsdb-server; return the mean figures of a host.

    `changed` is the plan after a workload of each of these hosts was replaced, `replaced` by host the names before and
    after that. On a host only its own one is. Processor seconds are those of the engine and the server together.
    """
    every = [
        _of_one_host(host_plan(plan, node), node, host_plan(_with_one_replaced(plan, changed, before, after), node))
        for node, (before, after) in replaced.items()
    ]
    return {name: mean(one[name] for one in every) for name in every[0]}


def _with_one_replaced(plan: dict, changed: dict, before: str, after: str) -> dict:
    workloads = {name: one for name, one in plan["workloads"].items() if name != before}
    return {**plan, "workloads": {**workloads, after: changed["workloads"][after]}}


def _of_one_host(plan: dict, node: str, changed: dict) -> dict[str, float]:
    rows, clock, written = render_northbound(plan, node), Clock(), {}
    with served(NORTHBOUND) as (server,):
        clock.watch(server.process.pid)
        written["create"] = clock.measure("create", apply, server, rows)
        assert clock.measure("no change", apply, server, rows) == (0, 0)
        read = read_by(server, rows)
        assert clock.measure("no change, as recorded", replies_equal, server.remote, read, _READ_TIMEOUT)
        written["one workload replaced"] = clock.measure("one workload replaced", _replace, server, plan, changed, node)
        assert apply(server, render_northbound(changed, node)) == (0, 0)
        clock.watch()
    assert written["create"][0] == len(rows) and written["one workload replaced"][0] > 0
    seconds, processor = clock.best(), clock.least_processor()
    found: dict[str, float] = {}
    for step in _STEPS:
        if step in written:
            found |= {f"{step}, rows": written[step][0], f"{step}, transactions": written[step][1]}
        found |= {f"{step}, s": seconds[step], f"{step}, processor s": processor[step]}
    return found


def _replace(server, plan: dict, changed: dict, node: str) -> tuple[int, int]:
    """Render the networks that differ and write what differs in them, as a host does (`agent/first_changes.py`)."""
    networks = changed_networks(plan, changed, node)
    former, rows = (render_northbound(one, node, networks) for one in (plan, changed))
    return apply(server, *narrowed(former, rows, TABLES))


def keep_and_read(plan: dict, changed: dict, node: str) -> dict[str, float]:
    """Return what a host needs to keep its part of the plan, another one, and to read and render it."""
    with tempfile.TemporaryDirectory(prefix="heddle-") as name:
        file, first, second = (Path(name) / part for part in ("plan.json", "first", "second"))
        first.write_text(pack(host_plan(plan, node)), encoding="ascii")
        second.write_text(pack(host_plan(changed, node)), encoding="ascii")
        done = [*_alone("keep", first, file, node), *_alone("keep", second, file, node), *_alone("render", file, node)]
        figures = {"plan file, MB": file.stat().st_size / 1e6}
    for step, found in zip(("keep the plan", "keep another plan", "read it", "read and render it"), done, strict=True):
        figures |= {f"{step}, {name}": value for name, value in found.items()}
    return figures


def _alone(*arguments: object) -> list[dict[str, float]]:
    """Run this program, and return what it prints."""
    command = [sys.executable, "-m", "tests.bench.fleet_hosts", *map(str, arguments)]
    return json.loads(subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout)


def _figures(began: float, used: float) -> dict[str, float]:
    """Return the time since then, and the largest memory of this process so far.

    getrusage(2) would have that of the parent, which `execve` hands on.
    """
    return {
        "s": time.perf_counter() - began,
        "processor s": time.process_time() - used,
        "MB of memory": resident_megabytes(os.getpid()),
    }


def main() -> None:
    """Do one step and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    steps = parser.add_subparsers(dest="step", required=True)
    keep = steps.add_parser("keep", help="write a node's part of a packed plan to the file of the plan")
    keep.add_argument("packed", type=Path)
    keep.add_argument("file")
    keep.add_argument("node")
    rendering = steps.add_parser("render", help="read the file of the plan, and render a host")
    rendering.add_argument("file")
    rendering.add_argument("node")
    options = parser.parse_args()
    began, used = time.perf_counter(), time.process_time()
    if options.step == "keep":
        plan = unpack(options.packed.read_text(encoding="ascii"))
        keep_plan(host_plan(plan, options.node), options.file, write=True)
        figures = [_figures(began, used)]
    else:
        plan = read_plan_file(options.file)
        figures = [_figures(began, used)]
        render(plan, options.node)
        figures.append(_figures(began, used))
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
