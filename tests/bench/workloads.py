# SPDX-License-Identifier: Apache-2.0
"""Playbooks with many networks that have workloads: seconds, and processor seconds of each daemon and program.

Runs on a lab that is up and converged; the lab has its own networks again afterwards. Of the networks, the first
`--used` have a workload on each node, the others have none, and are on no node; with `--everywhere` they are on all of
them, because dynamic networks are off meanwhile. Processor seconds are those of the hosts' services (cgroup v2,
`cpu.stat`), summed over all nodes, and of the control node's processes; they depend little on what else runs. `northd`
and `controller` go on working after a playbook has ended, so their part shows in the next step.

    python -m tests.bench.workloads --networks 100
    python -m tests.bench.workloads --networks 1000 --used 60 --steps "added,no change,audit,verify,one network removed"
    python -m tests.bench.workloads --networks 1000 --used 60 --everywhere
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ansible_collections.heddle.ovn.plugins.module_utils.common.text.text_table import table
from tests.bench.announcements import network
from tests.bench.dynamic_networks import SETTINGS
from tests.bench.neighbour_limits import raised_limits
from tests.lab.conftest import NODES, ROOT, Lab, Run

OWN_SET = ("-e", "heddle_manifest_set=scale")
# All other settings stay those of the lab.
EVERYWHERE = ("-e", json.dumps({"heddle_settings": {**SETTINGS, "dynamic_networks": False}}))
# Service of a host -> column of the table. What no column has is in `other`.
SERVICES = {
    "heddle-host": "modules",
    "ssh": "ssh",
    "ovn-northd": "northd",
    "ovn-controller": "controller",
    "ovs-vswitchd": "vswitchd",
    "ovsdb-server": "ovsdb",
    "ovn-ovsdb-server-nb": "ovsdb",
    "ovn-ovsdb-server-sb": "ovsdb",
    "heddle-state": "ovsdb",
}
COLUMNS = ("control", *dict.fromkeys(SERVICES.values()), "other")
READ_USAGE = "cd /sys/fs/cgroup && grep -H usage_usec cpu.stat system.slice/*.service/cpu.stat"


def workload(number: int, node: str, name: str) -> str:
    """Return the manifest of a workload of a network of `announcements.network`."""
    return (
        f"---\napiVersion: heddle.dev/v1\nkind: Workload\nmetadata: {{name: {name}, namespace: many{number}}}\n"
        f"spec: {{node: {node}}}\n"
    )


def manifests(networks: int, used: int, *, replaced: bool = False) -> str:
    """Return all manifests; with `replaced`, one workload of the middle network has another name."""
    workloads = [
        workload(number, node, "other" if replaced and (number, node) == (used // 2, NODES[0]) else node)
        for number in range(used)
        for node in NODES
    ]
    return "".join([*map(network, range(networks)), *workloads])


def processor_seconds(lab: Lab) -> dict[str, float]:
    """Return the processor seconds so far by column, of all nodes and of the processes that this one has waited for."""
    with ThreadPoolExecutor() as pool:
        texts = list(pool.map(lambda node: lab.ssh(node, READ_USAGE), NODES))
    own = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = {**dict.fromkeys(COLUMNS, 0.0), "control": own.ru_utime + own.ru_stime}
    for line in "".join(texts).splitlines():
        path, _colon, value = line.partition(":")
        seconds = int(value.split()[1]) / 1e6
        column = SERVICES.get(Path(path).parent.name.removesuffix(".service"))
        if path == "cpu.stat":
            found["other"] += seconds
        elif column:
            found[column] += seconds
            found["other"] -= seconds
    return found


def measure(lab: Lab, networks: int, used: int, steps: list[str], settings: tuple[str, ...] = ()) -> list[list[str]]:
    """Return a row of each step: its name, seconds, processor seconds by column; `settings` are arguments of runs."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        file = directory / "scale.yml"

        def apply(text: str) -> Callable[[], Run]:
            def play():
                file.write_text(text)
                return lab.play("networks.yml", *OWN_SET, *settings, manifests=directory, success=False)

            return play

        everything = manifests(networks, used)
        actions = {
            "added": apply(everything),
            "no change": apply(everything),
            "no change again": apply(everything),
            "one workload replaced": apply(manifests(networks, used, replaced=True)),
            "back": apply(everything),
            "audit": lambda: lab.play("audit.yml", success=False),
            "verify": lambda: lab.play("verify.yml", success=False),
            "one network more": apply(everything + network(networks) + workload(networks, NODES[1], NODES[1])),
            "one network removed": apply(everything),
            "all removed": apply("---\n"),
        }
        if settings:
            # The setting itself changes hosts, which is not what is measured.
            run = apply("---\n")()
            assert run.code == 0, run.output[-4000:]
        for step in steps or actions:
            before, began = processor_seconds(lab), time.monotonic()
            run = actions[step]()
            seconds, after = time.monotonic() - began, processor_seconds(lab)
            used_by = [f"{after[column] - before[column]:.1f}" for column in COLUMNS]
            # The others are measured nevertheless.
            print(run.output[-4000:] if run.code else "", end="", file=sys.stderr, flush=True)
            rows.append([f"{step} (failed)" if run.code else step, f"{seconds:.1f}", *used_by])
            print(json.dumps(dict(zip(("step", "s", *COLUMNS), rows[-1], strict=True))), flush=True)
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", type=int, default=100)
    parser.add_argument("--used", type=int, help="how many of them have a workload on each node; all without it")
    parser.add_argument("--everywhere", action="store_true", help="all networks are on all nodes, used or not")
    parser.add_argument("--steps", default="", help="steps by name, separated by commas; all without it")
    options = parser.parse_args()
    used = options.networks if options.used is None else options.used
    steps = [step for step in options.steps.split(",") if step]
    lab = Lab(Path(os.environ.get("LAB_DIR") or ROOT / ".lab"))
    with raised_limits(lab.directory):
        try:
            rows = measure(lab, options.networks, used, steps, EVERYWHERE if options.everywhere else ())
        finally:
            if options.everywhere:
                lab.play("networks.yml")
    load, where = os.getloadavg()[0], " on all nodes" if options.everywhere else ""
    title = f"{options.networks} networks{where}, {used * len(NODES)} workloads, {len(NODES)} nodes; load {load:.1f}"
    print("\n".join(table(title, ["step", "s", *COLUMNS], rows)))


if __name__ == "__main__":
    main()
