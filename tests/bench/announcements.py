# SPDX-License-Identifier: Apache-2.0
"""How much ARP and ND gateway routers send on the provider network, with few and with many networks.

Runs on a lab that is up and converged. The external host counts what it receives on the provider network: while
nothing changes, while networks are added, with all of them, and while one more is added. The last column compares with
the first phase. `resubmits` are the lines of ovs-vswitchd about more than 4,096 resubmits, on all nodes.

    python -m tests.bench.announcements --networks 200
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from ansible_collections.heddle.ovn.plugins.module_utils.common.text.text_table import table
from tests.lab.conftest import NODES, ROOT, Lab

# Networks without workloads are on no node otherwise.
ON_ALL_NODES = ("-e", '{"heddle_settings": {"dynamic_networks": false}}')
OWN_SET = ("-e", "heddle_manifest_set=announcements", *ON_ALL_NODES)
# Runs on the external host: packet(7), RFC 826, RFC 4861.
COUNT = """
import collections, json, select, socket, sys
listening = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
listening.bind(("eth2", 0))
found = collections.Counter()
while not select.select([sys.stdin], [], [], 0)[0]:
    if not select.select([listening], [], [], 0.2)[0]:
        continue
    frame, sender = listening.recvfrom(2048)
    if sender[2] == socket.PACKET_OUTGOING:
        continue
    if frame[12:14] == b"\\x08\\x06":
        announced = frame[28:32] == frame[38:42]
        found["ARP announcement" if announced else "ARP request" if frame[21] == 1 else "ARP reply"] += 1
        if frame[28:30] == b"\\xa9\\xfe":
            found["with a masquerade address"] += 1
    elif frame[12:14] == b"\\x86\\xdd" and frame[20] == 58 and frame[54] in (135, 136):
        found["ND solicitation" if frame[54] == 135 else "ND advertisement"] += 1
print(json.dumps(found))
"""
KINDS = (
    "ARP announcement", "ARP request", "ARP reply", "ND solicitation", "ND advertisement", "with a masquerade address",
)  # fmt: skip


def network(number: int) -> str:
    """Return the manifests of a primary Layer2 network in a namespace of its own."""
    return (
        f"---\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: many{number}\n"
        '  labels: {k8s.ovn.org/primary-user-defined-network: ""}\n'
        f"---\napiVersion: k8s.ovn.org/v1\nkind: UserDefinedNetwork\nmetadata: {{name: net, namespace: many{number}}}\n"
        "spec:\n  topology: Layer2\n  layer2:\n    role: Primary\n"
        f'    subnets: ["10.77.0.0/16", "fd00:77::/64"]\n'
    )


class Counter:
    """What the external host receives while the body runs; `counts` and `seconds` afterwards."""

    def __init__(self, lab: Lab) -> None:
        self.command = ["ssh", "-F", str(lab.directory / "ssh_config"), "external"]
        self.counts: dict[str, int] = {}
        self.seconds = 0.0

    def __enter__(self) -> Counter:
        program = base64.b64encode(COUNT.encode()).decode()
        run = f"python3 -c 'import base64; exec(base64.b64decode(\"{program}\"))'"
        self._process = subprocess.Popen([*self.command, run], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._began = time.monotonic()
        return self

    def __exit__(self, *_exception: object) -> None:
        self.seconds = time.monotonic() - self._began
        self.counts = json.loads(self._process.communicate("\n")[0])


def resubmits(lab: Lab, nodes: Sequence[str] = NODES) -> int:
    """Return how many lines about too many resubmits nodes have logged."""
    command = "grep -c 'over 4096 resubmit' /var/log/openvswitch/ovs-vswitchd.log || true"
    return sum(int(lab.ssh(node, command)) for node in nodes)


def measure(lab: Lab, networks: int, idle: float) -> list[list]:
    """Return a row for each phase: its name, seconds, frames by kind, frames per second, logged lines."""
    rows = []

    def phase(name: str, action) -> None:
        before = resubmits(lab)
        with Counter(lab) as counted:
            action()
        counts = [counted.counts.get(kind, 0) for kind in KINDS]
        rate = sum(counts[:-1]) / counted.seconds
        rows.append([name, round(counted.seconds), *counts, f"{rate:.2f}", resubmits(lab) - before])

    with tempfile.TemporaryDirectory() as folder:
        manifests = Path(folder)
        play = lambda: lab.play("networks.yml", *OWN_SET, manifests=manifests)  # noqa: E731
        phase("before", lambda: time.sleep(idle))
        (manifests / "networks.yml").write_text("".join(map(network, range(networks))))
        phase(f"adding {networks}", play)
        phase(f"with {networks} more", lambda: time.sleep(idle))
        (manifests / "one.yml").write_text(network(networks))
        phase("adding one", play)
        phase("after that", lambda: time.sleep(idle))
        for path in manifests.iterdir():
            path.unlink()
        (manifests / "none.yml").write_text("---\n")
        phase("removing all", play)
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", type=int, default=200)
    parser.add_argument("--idle", type=float, default=60, help="seconds of the phases without a change")
    chosen = parser.parse_args()
    rows = measure(Lab(Path(os.environ.get("LAB_DIR") or ROOT / ".lab")), chosen.networks, chosen.idle)
    first = float(rows[0][-2]) or 1.0
    header = ["phase", "s", *KINDS, "frames/s", "resubmits", "of the first"]
    print(
        "\n".join(table("Announcements", header, [[*map(str, row), f"{float(row[-2]) / first:.1f}x"] for row in rows]))
    )


if __name__ == "__main__":
    main()
