# SPDX-License-Identifier: Apache-2.0
"""How long a 10 ms ping is silent while a daemon of its host is restarted or killed, or the host's program is.

Runs on a lab that is up and converged (`make lab`, or LAB_DIR of another one). Beside each figure stands the gap of the
same ping while nothing happens, measured in the same run. Prints a table and, with --json FILE, the same as JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import time
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
INTERVAL = 0.01
SETTLE_SECONDS, WATCH_SECONDS = 1.0, 7.0
EVENTS = {
    "nothing": ["true"],
    "restart ovn-controller": ["systemctl", "restart", "ovn-controller"],
    "kill -9 ovn-controller": ["pkill", "-KILL", "--pidfile", "/run/ovn/ovn-controller.pid"],
    "restart ovs-vswitchd": ["systemctl", "restart", "ovs-vswitchd"],
    "kill -9 ovs-vswitchd": ["pkill", "-KILL", "--pidfile", "/run/openvswitch/ovs-vswitchd.pid"],
    "restart ovn-northd": ["systemctl", "restart", "ovn-northd"],
    "restart ovn-ovsdb-server-sb": ["systemctl", "restart", "ovn-ovsdb-server-sb"],
    "kill -9 heddle-host": ["systemctl", "kill", "--signal=KILL", "heddle-host"],
}
_ANSWER = re.compile(r"^\[(\d+\.\d+)\].*icmp_seq=(\d+) ttl", re.MULTILINE)


@dataclass
class Flow:
    """A ping from a workload of `node`."""

    name: str
    node: str
    namespace: str
    address: str


@dataclass
class Gap:
    """What became of one flow during one event: packets lost and the longest silence in seconds."""

    event: str
    flow: str
    sent: int
    lost: int
    longest: float


def host(name: str, *command: str) -> list[str]:
    """Return the command that runs another one on a host of the lab."""
    directory = Path(os.environ.get("LAB_DIR") or ROOT / ".lab")
    return ["ssh", "-F", str(directory / "ssh_config"), name, *command]


def flows(plan: dict) -> list[Flow]:
    """Return one flow for each way: to a workload on another node and to the provider network, in both families."""
    workloads = [one for one in plan["workloads"].values() if one["kind"] == "netns" and one["node"] == "node1"]
    source = next(one for one in workloads if len(_primary(one)["addresses"]) == 2)
    network = _primary(source)["network"]
    peer = next(
        one for one in plan["workloads"].values() if one["node"] != "node1" and _primary(one)["network"] == network
    )
    namespace = f"{source['namespace']}_{source['name']}"
    found = [
        Flow(
            f"to a workload on {peer['node']}, IPv{6 if ':' in address else 4}",
            "node1",
            namespace,
            address.split("/")[0],
        )
        for address in _primary(peer)["addresses"]
    ]
    hops = plan["nodes"]["node1"]["gateway"]["next_hops"]
    return found + [Flow(f"to external host, IPv{6 if ':' in hop else 4}", "node1", namespace, hop) for hop in hops]


def _primary(workload: dict) -> dict:
    return next(one for one in workload["interfaces"] if one["role"] == "primary")


def measure(event: str, watched: list[Flow]) -> list[Gap]:
    """Ping along all flows while the event happens on node1."""
    count = str(int((SETTLE_SECONDS + WATCH_SECONDS) / INTERVAL))
    ping = ["ping", "-D", "-n", "-i", str(INTERVAL), "-c", count, "-W", "1"]
    running = [
        subprocess.Popen(
            host(flow.node, "ip", "netns", "exec", flow.namespace, *ping, flow.address),
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )
        for flow in watched
    ]  # fmt: skip
    time.sleep(SETTLE_SECONDS)
    subprocess.run(host("node1", *EVENTS[event]), check=True, capture_output=True)
    return [
        _gap(event, flow, process.communicate()[0], int(count)) for flow, process in zip(watched, running, strict=True)
    ]


def _gap(event: str, flow: Flow, output: str, sent: int) -> Gap:
    answers = sorted((int(number), float(when)) for when, number in _ANSWER.findall(output))
    moments = [when for _number, when in answers]
    longest = max((after - before for before, after in pairwise(moments)), default=0.0)
    return Gap(event, flow.name, sent, sent - len({number for number, _when in answers}), round(longest, 3))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    arguments = parser.parse_args()
    plan = json.loads(
        subprocess.run(host("node1", "cat", "/var/lib/heddle/plan.json"), check=True, capture_output=True).stdout
    )
    watched = flows(plan)
    found: list[Gap] = []
    print(f"{'event':<30}{'flow':<34}{'sent':>6}{'lost':>6}{'longest gap':>13}{'undisturbed':>13}")
    for event in EVENTS:
        gaps = measure(event, watched)
        found += gaps
        for gap, quiet in zip(gaps, found[: len(watched)], strict=True):
            print(
                f"{gap.event:<30}{gap.flow:<34}{gap.sent:>6}{gap.lost:>6}"
                f"{gap.longest:>11.3f} s{quiet.longest:>11.3f} s",
                flush=True,
            )
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(gap) for gap in found], indent=1) + "\n")


if __name__ == "__main__":
    main()
