# SPDX-License-Identifier: Apache-2.0
"""From the change of an endpoint by a run of `networks.yml` to packets on every host of a lab.

Runs on a lab of containers that is up and converged, whose hosts have one clock; the lab has its own networks again
afterwards. A Service of a Layer2 network has an endpoint on each node, and a workload on each node begins a connection
to it every 10 ms. Runs make one of the endpoints not ready and ready again in turn. Seconds until all nodes' new
connections follow, from the start of the run and from when the first host stored the new plan; without an endpoint
the last connection that reached it counts, with it the first one. One connection of three chooses it by chance.

    python -m tests.bench.endpoint_run --changes 100
"""

from __future__ import annotations

import argparse
import contextlib
import ipaddress
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ansible_collections.heddle.ovn.plugins.module_utils.common.text.text_table import table
from tests.lab.conftest import MANIFESTS, NODES, PATIENCE, ROOT, Lab
from tests.lab.green_network import GREEN
from tests.lab.remote_program import RemoteProgram

INTERVAL = 0.01
# The endpoint that comes and goes.
CHANGED = NODES[1]
PORT, TARGET_PORT = 53, 5353
SERVICE = f"""---
apiVersion: v1
kind: Service
metadata: {{name: web, namespace: green}}
spec:
  ipFamilyPolicy: PreferDualStack
  selector: {{app: web}}
  ports: [{{protocol: UDP, port: {PORT}, targetPort: {TARGET_PORT}}}]
"""
WORKLOADS = """---
apiVersion: heddle.dev/v1
kind: Workload
metadata: {{name: client-{node}, namespace: green}}
spec: {{node: {node}}}
---
apiVersion: heddle.dev/v1
kind: Workload
metadata: {{name: web-{node}, namespace: green, labels: {{app: web}}}}
spec: {{node: {node}, ready: {ready}}}
"""
ROWS = {"run": "from the start of the run", "plan": "from the first host's new plan"}
# Connections that reach others after the last one that reached it: all of 20 by chance once in 3,300 clients.
ENOUGH = 20


def manifests(*, ready: bool) -> str:
    """Return the YAML of the network, the Service, and the workloads of all nodes."""
    text = [WORKLOADS.format(node=node, ready=json.dumps(ready or node != CHANGED)) for node in NODES]
    return "".join([GREEN, SERVICE, *text])


@contextlib.contextmanager
def programs(lab: Lab, family: int) -> Iterator[Callable[[], dict[str, list]]]:
    """Start endpoints and clients; the function returns the connections of each client since its last call."""
    addresses = lab.plan()["services"]["green_net"]["green/web"]["addresses"]
    target = next(one for one in addresses if ipaddress.ip_address(one).version == family)

    def program(kind: str, node: str, *words) -> RemoteProgram:
        return RemoteProgram(lab, node, "datagram_log.py", *words, namespace=f"green_{kind}-{node}")

    servers = [program("web", node, "answer", node, TARGET_PORT) for node in NODES]
    clients = {node: program("client", node, "ask", target, PORT, INTERVAL) for node in NODES}
    try:
        for one in [*servers, *clients.values()]:
            assert one.line() == "ready"

        def read() -> dict[str, list]:
            for client in clients.values():
                client.go_on()
            return {node: client.line() for node, client in clients.items()}

        yield read
    finally:
        for one in [*clients.values(), *servers]:
            one.end()


def followed(connections: dict[str, list], *, ready: bool) -> float | None:
    """Return when the connections of the last client followed, as the clock has it; None while one's have not."""
    moments = []
    for found in connections.values():
        reached = [began for began, name in found if name == CHANGED]
        if ready:
            if not reached:
                return None
            moments.append(min(reached))
        else:
            last = max(reached, default=0.0)
            if len([began for began, name in found if name and began > last]) < ENOUGH:
                return None
            moments.append(last + INTERVAL)
    return max(moments)


def stored(lab: Lab) -> float:
    """Return when the first host stored its plan."""
    with ThreadPoolExecutor() as pool:
        texts = pool.map(lambda node: lab.ssh(node, "stat", "--format=%.9Y", "/var/lib/heddle/plan.json"), NODES)
    return min(map(float, texts))


def measure(lab: Lab, changes: int, directory: Path, read: Callable[[], dict[str, list]]) -> tuple[dict, list[str]]:
    """Change the endpoint so many times; return the seconds by row, and the answers of all connections."""
    seconds, answers = {row: [] for row in ROWS}, []
    for number in range(changes):
        ready = bool(number % 2)
        (directory / "green.yml").write_text(manifests(ready=ready))
        answers += [name for found in read().values() for _began, name in found]
        start = time.time()
        lab.play("networks.yml", manifests=directory)
        connections: dict[str, list] = {node: [] for node in NODES}
        deadline = time.monotonic() + PATIENCE
        while (moment := followed(connections, ready=ready)) is None:
            assert time.monotonic() < deadline, f"change {number + 1}: connections did not follow"
            for node, found in read().items():
                connections[node] += found
        answers += [name for found in connections.values() for _began, name in found]
        for row, since in (("run", start), ("plan", stored(lab))):
            seconds[row].append(moment - since)
        last = {row: round(values[-1], 3) for row, values in seconds.items()}
        print(json.dumps({"ready": ready, **last}), flush=True)
    return seconds, answers


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--changes", type=int, default=100, help="two or more")
    parser.add_argument("--family", type=int, choices=(4, 6), default=4)
    options = parser.parse_args()
    lab = Lab(Path(os.environ.get("LAB_DIR") or ROOT / ".lab"))
    if json.loads((lab.directory / "lab.json").read_text())["driver"] != "nspawn":
        parser.error("hosts of this lab have clocks of their own; use a lab of containers (make lab DRIVER=nspawn)")
    with tempfile.TemporaryDirectory() as folder:
        directory = shutil.copytree(MANIFESTS, Path(folder) / "manifests")
        (directory / "green.yml").write_text(manifests(ready=True))
        lab.play("networks.yml", manifests=directory)
        try:
            with programs(lab, options.family) as read:
                seconds, answers = measure(lab, options.changes, directory, read)
        finally:
            lab.play("networks.yml")
    rows = []
    for row, found in seconds.items():
        p99 = statistics.quantiles(found, n=100, method="inclusive")[-1]
        rows.append([ROWS[row], *(f"{value:.3f}" for value in (statistics.median(found), p99, max(found)))])
    title = f"{options.changes} changes, IPv{options.family}, {len(NODES)} nodes; load {os.getloadavg()[0]:.1f}"
    print("\n".join(table(title, ["seconds until packets follow", "p50", "p99", "longest"], rows)))
    print(f"connections without an answer: {answers.count('')} of {len(answers)}")


if __name__ == "__main__":
    main()
