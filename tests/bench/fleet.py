# SPDX-License-Identifier: Apache-2.0
"""What a fleet costs by its size: state on a real ovsdb-server, admission, plan, readiness, and what hosts do with it.

    python -m tests.bench.fleet [--full] [--hosts 10 50 100 500] [--churn 1000] [--layer2] [--operations 1000]

A host has 100 workloads on average, and there are 8.192 networks for each host: 4,096 networks and 50,000 workloads on
500 hosts. Networks are primary, dual stack, half Layer2 and half Layer3 (with `--layer2` all Layer2), and only where
they are used (dynamic networks). A step's processor seconds are those of the client; the server's are in `state
server`. Every size runs in a process of its own, so that its memory is its own. The second table has the cost for each
workload, as a multiple of that of the smallest fleet: 1.0 is linear. Without `--full` the largest fleet has 100 hosts.
`--operations` replaces that many workloads besides, one after the other: each is a run that reads the state, admits all
manifests, makes the plan, rehearses what differs and stores, as the module `resource` does, and renders the host of the
workload. After that all hosts report that they have the plan, which is recorded. A table has what an operation costs.
With 500 hosts an operation takes many seconds.

The table of hosts has, for three hosts of the fleet, what the engine writes into a real ovsdb-server with the schema of
the Northbound: everything, nothing, and one workload replaced; and what keeping, reading and rendering the plan takes a
process of its own. In brackets it has multiples of the smallest fleet's.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial

from ansible_collections.heddle.ovn.plugins.module_utils.api import Resource, packed, read_manifests
from ansible_collections.heddle.ovn.plugins.module_utils.common.serialization import pack
from ansible_collections.heddle.ovn.plugins.module_utils.common.text.text_table import table
from ansible_collections.heddle.ovn.plugins.module_utils.operations.admission_service import next_state, state_changes
from ansible_collections.heddle.ovn.plugins.module_utils.operations.plans import Plans
from ansible_collections.heddle.ovn.plugins.module_utils.operations.readiness import record
from ansible_collections.heddle.ovn.plugins.module_utils.operations.status_files import status_files
from ansible_collections.heddle.ovn.plugins.module_utils.operations.status_text import status_table
from ansible_collections.heddle.ovn.plugins.module_utils.operations.status_view import changes_text, state_view
from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from ansible_collections.heddle.ovn.plugins.module_utils.render.common.host_plan import HostPlans
from ansible_collections.heddle.ovn.plugins.module_utils.store.snapshot import Snapshot

from . import ROOT, fleet_hosts, load
from .servers import STATE, Server, processor_seconds, resident_megabytes, served

WORKLOADS_OF_HOST, MOST_NETWORKS, MOST_HOSTS = 100, 4096, 500
# Room for that many hosts and workloads. A cluster has 4,096 network ids, one of which is the default network's.
SETTINGS = {"cluster_subnets": ["10.128.0.0/11/23", "fd10::/32/64"], "networks_total": MOST_NETWORKS - 1}
SIZES, FULL = (10, 50, 100), (10, 50, 100, 500)
# Per host, so that it should not grow with the fleet.
OF_ONE_HOST = ("render one host", "rows of one host")


def sizes_of(hosts: int) -> tuple[int, int]:
    """Return the numbers of networks, without the default one, and workloads of a fleet."""
    return min(round(hosts * MOST_NETWORKS / MOST_HOSTS), MOST_NETWORKS - 1), hosts * WORKLOADS_OF_HOST


def manifests(hosts: int, churned: int = 0, *, layer2: bool = False) -> str:
    """Return the YAML; the first `churned` workloads have another name, which replaces them."""
    networks, workloads = sizes_of(hosts)
    # A Layer3 network has a subnet for each host.
    text = [load.manifests(networks, layer2=layer2).replace("10.201.0.0/16", "10.160.0.0/12")]
    for number in range(workloads):
        network, index = number % networks, number // networks
        name = f"{'new' if number < churned else 'w'}{index}"
        text.append(workload(name, f"tenant{network}", f"node{(network + index) % hosts + 1}"))
    return "".join(text)


def workload(name: str, namespace: str, node: str) -> str:
    """Return the YAML of a workload."""
    return (
        f"---\napiVersion: heddle.dev/v1\nkind: Workload\nmetadata: {{name: {name}, namespace: {namespace}}}\n"
        f"spec: {{node: {node}}}\n"
    )


def one_replaced(found: list[Resource], nodes: list[str]) -> tuple[list[Resource], dict[str, tuple[str, str]]]:
    """Return the manifests with another workload in place of one of each node, and by node the names of both."""
    changed, names = list(found), {}
    for node in nodes:
        place = next(place for place, one in enumerate(found) if one.kind == "Workload" and one.spec["node"] == node)
        namespace = found[place].namespace
        (changed[place],), problems = read_manifests([("other.yml", workload("other", namespace, node))])
        assert not problems
        names[node] = f"{namespace}/{found[place].name}", f"{namespace}/other"
    return changed, names


def descriptions(hosts: int) -> dict[str, dict]:
    """Return what the hosts of a fleet report, each with a provider network."""
    found = {}
    for number in range(1, hosts + 1):
        low = f"{number // 250}.{number % 250 + 3}"
        found[f"node{number}"] = {
            "chassis": f"chassis-of-node{number}",
            "encap_ips": [f"198.18.{low}"],
            "addresses": [f"198.19.{low}"],
            "gateway": {
                "mode": "shared", "bridge": "breth1", "uplink": "eth1",
                "mac": f"02:00:00:00:{number // 256:02x}:{number % 256:02x}",
                "addresses": [f"198.19.{low}/16", f"2001:db8::{number + 2:x}/64"],
                "next_hops": ["198.19.0.1", "2001:db8::1"],
            },
        }  # fmt: skip
    return found


class Steps:
    """Seconds and processor seconds of each step, from a clean heap and with the collector off, as modules have it."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.processor: dict[str, float] = {}

    def measure(self, label: str, function: Callable, *arguments, **options):
        """Call a function and return its result."""
        gc.collect()
        gc.disable()
        try:
            began, used = time.perf_counter(), time.process_time()
            result = function(*arguments, **options)
            self.seconds[label], self.processor[label] = time.perf_counter() - began, time.process_time() - used
        finally:
            gc.enable()
        return result


def reports(digests: dict[str, str]) -> dict[str, dict]:
    """Return what hosts report that are as planned; `digests` are those of their parts of the plan."""
    return {node: {"digest": digest, "drift": [], "problems": []} for node, digest in digests.items()}


def record_reports(client, digests: dict[str, str]) -> tuple[Snapshot, Snapshot, Plans]:
    """Record that all hosts are as planned; return the state before and after, and the plans of both."""
    plans = Plans()
    return *record(client, reports(digests), {}, write=True, plans=plans), plans


def make_status(before: Snapshot, after: Snapshot, plans: Plans) -> int:
    """Make what a run shows and writes of the recorded state, as the module `readiness`; return its size in bytes."""
    view = state_view(after, plans)
    reported = reports(view["host_plans"])
    texts = [changes_text(before, after), status_table(view, reported, summary=True)]
    assert state_changes(before, after)
    files = status_files(view, reported)
    pack(files)
    return sum(map(len, [*texts, *files.values()]))


def one_by_one(
    apply: Callable, recorded: Callable, found: list[Resource], others: list[Resource], count: int, server: Server
) -> dict[str, float]:
    """Replace workloads one at a time; return processor seconds of an operation, and megabytes, before and after."""
    current, places = list(found), [place for place, one in enumerate(found) if one != others[place]][:count]
    steps, spent, recording, sizes = Steps(), [], [], [server.file.stat().st_size]

    def operation(node: str) -> dict[str, str]:
        plans = Plans()
        _before, after = apply(current, plans=plans)
        plan = plans.of(after)
        fleet_hosts.render(plan, node)
        plans.packed(after, [node])
        return plans.of_hosts(after).digests

    for place in places:
        current[place] = others[place]
        digests = steps.measure("operation", operation, current[place].spec["node"])
        steps.measure("recording", recorded, digests)
        spent.append(steps.processor["operation"])
        recording.append(steps.processor["recording"])
        sizes.append(server.file.stat().st_size)
    tenth = max(len(spent) // 10, 1)
    return {
        "operations": len(spent),
        "median": statistics.median(spent),
        "the slowest": max(spent),
        "mean of the first tenth": statistics.mean(spent[:tenth]),
        "mean of the last tenth": statistics.mean(spent[-tenth:]),
        "readiness and status, median": statistics.median(recording),
        "state before, MB": sizes[0] / 1e6,
        "state at its largest, MB": max(sizes) / 1e6,
        "state after, MB": sizes[-1] / 1e6,
        "memory of the server, MB": resident_megabytes(server.process.pid),
    }


def of_hosts(apply: Callable, found: list[Resource], plan: dict, hosts: int) -> dict[str, float]:
    """Return what hosts do with the plan; `apply` admits manifests without storing anything."""
    changed, replaced = one_replaced(found, fleet_hosts.sampled(hosts))
    _before, after = apply(changed)
    other = build_plan(after)
    return {**fleet_hosts.write(plan, other, replaced), **fleet_hosts.keep_and_read(plan, other, next(iter(replaced)))}


def one_size(hosts: int, churn: int, operations: int, *, layer2: bool) -> dict:
    """Return all figures of one fleet."""
    steps, described = Steps(), descriptions(hosts)
    networks, workloads = sizes_of(hosts)
    churn = min(max(churn, operations), workloads)

    def apply(
        client, found: list[Resource], plans: Plans | None = None, *, write: bool = True
    ) -> tuple[Snapshot, Snapshot]:
        """As the module `resource`: it reads the state, admits, builds the plan, rehearses what changed, and stores."""
        arguments = {
            "resources": pack([packed(one) for one in found]), "nodes": described, "settings": SETTINGS,
            "manifest_set": "bench", "deployment": "bench", "released": [],
        }  # fmt: skip
        return next_state(arguments, client, write=write, plans=plans)

    found, problems = steps.measure("validate", read_manifests, [("fleet.yml", manifests(hosts, layer2=layer2))])
    others, more = read_manifests([("fleet.yml", manifests(hosts, churn, layer2=layer2))])
    assert not problems + more, problems[:3]
    with served(STATE) as (server,), server.client(timeout=600) as client:

        def recorded(digests: dict[str, str]) -> int:
            return make_status(*record_reports(client, digests))

        _none, admitted = steps.measure("admit and store", apply, client, found)
        size = server.file.stat().st_size
        plan = steps.measure("plan", build_plan, admitted)
        assert (len(plan["workloads"]), len(plan["networks"])) == (workloads, networks + 1)
        digests = steps.measure("digests of the hosts", lambda: HostPlans(plan).digests)
        packed_plan = steps.measure("pack the plan", pack, plan)
        states = steps.measure("record readiness", record_reports, client, digests)
        status_size = steps.measure("status tables and files", make_status, *states)
        # A run ends here, and its memory is free.
        del states
        before, again = steps.measure("no change", apply, client, found)
        assert again.revision == before.revision
        rows = steps.measure("render one host", fleet_hosts.render, plan, f"node{hosts // 2}")
        on_hosts = of_hosts(partial(apply, client, write=False), found, plan, hosts)
        steps.measure(f"replace {churn}", apply, client, others)
        # Back to their former names.
        each = one_by_one(partial(apply, client), recorded, others, found, operations, server) if operations else {}
        server_seconds, server_memory = processor_seconds(server.process.pid), resident_megabytes(server.process.pid)
    return {
        "hosts": hosts,
        "networks": networks,
        "workloads": workloads,
        "churn": churn,
        "one by one": each,
        "on hosts": on_hosts,
        "processor": {**steps.processor, "state server": server_seconds},
        "seconds": steps.seconds,
        "sizes": {
            "state, MB": size / 1e6,
            "plan, MB": len(json.dumps(plan)) / 1e6,
            "plan packed, MB": len(packed_plan) / 1e6,
            "status tables and files, MB": status_size / 1e6,
            "rows of one host": rows,
            "memory, MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "memory of the server, MB": server_memory,
        },
    }


def figures(hosts: int, options: argparse.Namespace) -> dict:
    """Measure one fleet in a process of its own."""
    command = [sys.executable, "-m", "tests.bench.fleet", "--one", str(hosts), "--churn", str(options.churn)]
    command += ["--operations", str(options.operations), *(["--layer2"] if options.layer2 else [])]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def costs(one: dict) -> dict[str, float]:
    """Return what a fleet costs by name; churn by operation, and independent of how many there were."""
    found = {**one["processor"], **one["sizes"]}
    name = f"replace {one['churn']}"
    found["replace"] = found.pop(name)
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, nargs="+")
    parser.add_argument("--full", action="store_true", help="up to 500 hosts, 4,096 networks and 50,000 workloads")
    parser.add_argument("--churn", type=int, default=1000, help="workloads that are replaced in one run")
    parser.add_argument("--operations", type=int, default=0, help="workloads that are replaced one after the other")
    parser.add_argument("--layer2", action="store_true", help="no Layer3 networks")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one_size(options.one, options.churn, options.operations, layer2=options.layer2)))
        return
    fleets = []
    for hosts in options.hosts or (FULL if options.full else SIZES):
        fleets.append(figures(hosts, options))
        print(json.dumps(fleets[-1]), file=sys.stderr, flush=True)
    columns = [f"{one['hosts']} hosts, {one['networks']:,} networks, {one['workloads']:,} workloads" for one in fleets]
    every = [costs(one) for one in fleets]
    title = f"processor seconds, megabytes, rows; load {os.getloadavg()[0]:.1f}"
    print("\n".join(table(title, ["", *columns], [[n, *(f"{cost[n]:,.1f}" for cost in every)] for n in every[0]])))
    shown = [
        [name, *(f"{growth(name, fleets, every, place):.2f}" for place in range(len(fleets)))] for name in every[0]
    ]
    print("\n".join(table("\ncost of a workload, as a multiple of the smallest fleet's", ["", *columns], shown)))
    first = fleets[0]["on hosts"]
    rows = [[name, *(_beside(one["on hosts"][name], first[name]) for one in fleets)] for name in first]
    print("\n".join(table("\none host: its Northbound (mean of three hosts), and the plan", ["", *columns], rows)))
    if options.operations:
        rows = [[name, *(f"{one['one by one'][name]:,.3f}" for one in fleets)] for name in fleets[0]["one by one"]]
        print("\n".join(table("\none workload replaced at a time, processor seconds", ["", *columns], rows)))


def growth(name: str, fleets: list[dict], every: list[dict], place: int) -> float:
    """Return how much more a workload costs than in the smallest fleet; one host, than one host there."""
    ratio = every[place][name] / (every[0][name] or 1e-9)
    return ratio if name in OF_ONE_HOST else ratio * fleets[0]["workloads"] / fleets[place]["workloads"]


def _beside(value: float, first: float) -> str:
    """Return a figure, and as which multiple of the smallest fleet's."""
    text = f"{value:,.3f}" if value < 10 else f"{value:,.0f}"
    return f"{text} ({value / first:.2f})" if first else text


if __name__ == "__main__":
    main()
