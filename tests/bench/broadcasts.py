# SPDX-License-Identifier: Apache-2.0
"""What broadcasts of other hosts cost the nodes, with few and with many primary networks.

Runs on a lab that is up and converged. The external host broadcasts, at a steady rate, ARP requests of 20 neighbours,
each for another address, or unsolicited neighbour advertisements, while the processor time of ovs-vswitchd is measured:
in cores, on the busiest node. `over 4096` are the lines of ovs-vswitchd on all nodes about packets that it dropped
because they take more than 4,096 lookups. Then one answer of a neighbour is sent to the first node: `learned` are
the gateway routers there that have its MAC afterwards, of all, with its packets that did not reach ovn-controller. The
last column compares with the first row of the same kind.

The networks have no workloads, so dynamic networks are off meanwhile. Three nodes with 1,000 networks need more memory
than most machines have: on a lab that was converged with an inventory without node2 and node3, `--inventory DIRECTORY
--nodes node1` measures one node.

    python -m tests.bench.broadcasts --networks 10 50 100 200
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import subprocess
import sys
import tempfile
import time
from ipaddress import ip_interface
from pathlib import Path

from ansible_collections.heddle.ovn.plugins.module_utils.common.text.text_table import table
from tests.bench.announcements import ON_ALL_NODES, network, resubmits
from tests.lab.conftest import NODES, ROOT, Lab

OWN_SET = ("-e", "heddle_manifest_set=broadcasts", *ON_ALL_NODES)
PREFIX = os.environ.get("LAB_NETWORK_PREFIX") or "198.18"
# Runs on the external host: packet(7), RFC 826, RFC 4861. Arguments: family, packets a second, seconds, prefix of IPv4.
SEND = """
import ipaddress, socket, struct, sys, time
family, rate, seconds, prefix = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
sending = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
sending.bind(("eth2", 0))
def sum16(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
frames = []
for number in range(20):
    mac = bytes([2, 0, 0, 0, 9, number])
    if family == 4:
        own = socket.inet_aton(f"{prefix}.2.{100 + number}")
        request = struct.pack("!HHHBBH", 0x806, 1, 0x800, 6, 4, 1) + mac + own + bytes(6)
        frames.append(b"\\xff" * 6 + mac + request)
    else:
        own, to = ipaddress.ip_address(f"fe80::9:{number:x}").packed, ipaddress.ip_address("ff02::1").packed
        body = struct.pack("!BBHI", 136, 0, 0, 0x20000000) + own + b"\\x02\\x01" + mac
        total = sum16(own + to + struct.pack("!IHBB", len(body), 0, 0, 58) + body)
        body = body[:2] + struct.pack("!H", total) + body[4:]
        head = struct.pack("!IHBB", 6 << 28, len(body), 58, 255) + own + to
        frames.append(b"\\x33\\x33\\x00\\x00\\x00\\x01" + mac + b"\\x86\\xdd" + head + body)
began, sent = time.monotonic(), 0
while (passed := time.monotonic() - began) < seconds:
    while sent < passed * rate:
        # Each request asks for another address, as a scan does, so no flow of the datapath's cache matches it.
        asked = struct.pack("!I", (198 << 24) + sent) if family == 4 else b""
        sending.send(frames[sent % len(frames)] + asked)
        sent += 1
    time.sleep(0.005)
print(sent)
"""


# Runs on the external host: one answer for another address of the provider network to a node's MAC.
ANSWER = """
import ipaddress, socket, struct, sys
family, to, asked, node = int(sys.argv[1]), bytes.fromhex(sys.argv[2]), sys.argv[3], sys.argv[4]
sending = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
sending.bind(("eth2", 0))
mac, own, node = b"\\x02\\x00\\x00\\x00\\x08\\x01", *(ipaddress.ip_address(text).packed for text in (asked, node))
if family == 4:
    frame = to + mac + struct.pack("!HHHBBH", 0x806, 1, 0x800, 6, 4, 2) + mac + own + to + node
else:
    body = struct.pack("!BBHI", 136, 0, 0, 0x60000000) + own + b"\\x02\\x01" + mac
    pseudo = own + node + struct.pack("!IHBB", len(body), 0, 0, 58) + body
    total = sum(struct.unpack(f"!{len(pseudo) // 2}H", pseudo))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    body = body[:2] + struct.pack("!H", ~total & 0xFFFF) + body[4:]
    frame = to + mac + b"\\x86\\xdd" + struct.pack("!IHBB", 6 << 28, len(body), 58, 255) + own + node + body
sending.send(frame)
"""


# Gateway routers of a node.
ROUTERS = "ovn-nbctl --no-heading --columns=name list Logical_Router_Port | grep -c rtoe-"


def processor_seconds(lab: Lab, nodes: list[str]) -> dict[str, float]:
    """Return the processor time that ovs-vswitchd has used, by node, from proc(5)."""
    found = {}
    for node in nodes:
        fields = lab.ssh(node, "cat /proc/$(cat /run/openvswitch/ovs-vswitchd.pid)/stat").rpartition(")")[2].split()
        found[node] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return found


def disturb(lab: Lab, nodes: list[str], family: int, rate: float, seconds: float) -> list:
    """Broadcast for some seconds; returns packets sent, the load of the busiest node in cores, lines."""
    program = base64.b64encode(SEND.encode()).decode()
    run = f"python3 -c 'import base64; exec(base64.b64decode(\"{program}\"))' {family} {rate} {seconds} {PREFIX}"
    lines, before = resubmits(lab, nodes), processor_seconds(lab, nodes)
    sent = subprocess.run(
        ["ssh", "-F", str(lab.directory / "ssh_config"), "external", run], capture_output=True, text=True, check=True
    )
    after = processor_seconds(lab, nodes)
    share = max(after[node] - before[node] for node in nodes) / seconds
    return [int(sent.stdout), share, resubmits(lab, nodes) - lines]


def learned(lab: Lab, node: str, family: int, number: int) -> str:
    """Send a node one answer of a neighbour that is new; returns how many of its gateway routers have it, of all.

    When not all have it, also the packets that ovs-vswitchd could not queue for ovn-controller: it holds a hundred, and
    one answer is one packet for each router (`rconn_overflow` of coverage/show, ovs-vswitchd(8)).
    """
    routers = int(lab.ssh(node, ROUTERS))
    facts = json.loads(lab.ssh(node, "ip -json address show dev br-ex"))[0]
    entries = [one for one in facts["addr_info"] if one["family"] == ("inet" if family == 4 else "inet6")]
    # The node's own address, and not one that it holds for others or a masquerade address.
    entry = next(one for one in entries if one["scope"] == "global" and one["prefixlen"] in (24, 64))
    network = ip_interface(f"{entry['local']}/{entry['prefixlen']}").network
    asked = str(network[-10 - number])
    program = base64.b64encode(ANSWER.encode()).decode()
    run = f"python3 -c 'import base64; exec(base64.b64decode(\"{program}\"))'"
    overflow = "ovs-appctl coverage/read-counter rconn_overflow"
    dropped = int(lab.ssh(node, overflow))
    lab.ssh("external", f"{run} {family} {facts['address'].replace(':', '')} {asked} {entry['local']}")
    found = f"ovn-sbctl --no-heading --columns=logical_port find MAC_Binding ip='\"{asked}\"' | grep -c rtoe- || true"
    have = 0
    # Until all have it, or no further one has within twenty seconds.
    while have < routers and (now := _counted(lab, node, found, have)) > have:
        have = now
    dropped = int(lab.ssh(node, overflow)) - dropped
    return f"{have} of {routers}" + (f", {dropped} dropped" if have < routers else "")


def _counted(lab: Lab, node: str, command: str, known: int) -> int:
    for _attempt in range(100):
        if (found := int(lab.ssh(node, command))) > known:
            return found
        time.sleep(0.2)
    return known


def measure(lab: Lab, chosen: argparse.Namespace) -> list[list]:
    """Return a row for each number of networks and family: more networks, family, packets, share of a core, lines."""
    rows = []
    arguments = (*OWN_SET, *(("-i", chosen.inventory) if chosen.inventory else ()))
    with tempfile.TemporaryDirectory() as folder:
        manifests = Path(folder)
        for size in [0, *chosen.networks]:
            (manifests / "networks.yml").write_text("".join(map(network, range(size))) or "---\n")
            lab.play("networks.yml", *arguments, manifests=manifests)
            for family in (4, 6):
                loads = disturb(lab, chosen.nodes, family, chosen.rate, chosen.seconds)
                rows.append([size, f"IPv{family}", *loads, learned(lab, chosen.nodes[0], family, len(rows))])
                print(*rows[-1], file=sys.stderr, flush=True)
        (manifests / "networks.yml").write_text("---\n")
        lab.play("networks.yml", *arguments, manifests=manifests)
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", type=int, nargs="+", default=[10, 50, 100, 200])
    parser.add_argument("--rate", type=float, default=100, help="broadcasts a second")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--nodes", nargs="+", default=[*NODES], help="nodes of the inventory")
    parser.add_argument("--inventory", help="another one than that of the lab")
    chosen = parser.parse_args()
    lab = Lab(Path(os.environ.get("LAB_DIR") or ROOT / ".lab"))
    rows = measure(lab, chosen)
    first = {row[1]: row[3] or 0.001 for row in reversed(rows)}
    header = ["more networks", "family", "packets", "of a core", "over 4096", "learned", "of the first"]
    lines = [
        [*map(str, row[:3]), f"{row[3]:.3f}", str(row[4]), row[5], f"{row[3] / first[row[1]]:.1f}x"] for row in rows
    ]
    print("\n".join(table("Broadcasts on the provider network", header, lines)))


if __name__ == "__main__":
    main()
