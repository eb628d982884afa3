# SPDX-License-Identifier: Apache-2.0
"""What a byte and a packet cost between workloads and to the external host, beside what plain Linux makes of it.

    python -m tests.bench.data_plane

Runs on a lab of driver `uml` (or `vm`) that is up and converged, whose hosts forward in the kernel, and brings networks
of its own there. Beside them, on the same hosts: two namespaces on a Linux bridge, the same over a vxlan device between
two hosts, and a namespace whose packets the host forwards with masquerading. All have the MTU of the networks.

What counts is the processor time of the hosts on the path, as this machine counts it, because each host has one
processor of its own, and the time by the clock would be that of the program that connects their NICs. What idle hosts
take in the same time is subtracted. A round is plain, each of Heddle's ways, plain. `large segments` is TCP as it is;
in `single packets` the sender's interface leaves no segmentation to later, so each packet passes on its own. `ratio` is
the processor time by that of plain Linux in the same round, `noise` that of the second plain transfer by the first.
Figures are medians of the rounds, with the lowest and the highest.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.heddle.ovn.plugins.module_utils.common.text.text_table import table
from lab import runtime
from lab.config import MACHINES
from lab.config import Lab as LabDirectory
from lab.processes import running
from tests.bench.guest import processor_time
from tests.lab.conftest import ROOT, Lab
from tests.lab.remote_program import RemoteProgram

OWN_SET = ("-e", "heddle_manifest_set=data_plane")
_PORT, _SETTLE, _IDLE = 5300, 0.5, 3.0
_MTU = 1400
PLAIN = "plain Linux"
_HOSTS = ("node1", "node2", "external")
KINDS = {"large segments": "on", "single packets": "off"}
# Within a host a byte costs much less, and what is measured must take longer than what else a host does.
_TIMES_AS_MUCH = {("same host", "large segments"): 16, ("same host", "single packets"): 4}
# Plain Linux: namespaces on a bridge, which a vxlan device connects with the other host's, and one behind a router.
_BRIDGE = """
ip link add benchbr type bridge mcast_snooping 0
ip link set benchbr up
ip link add benchvx master benchbr mtu {mtu} type vxlan id 79 local {own} remote {other} dstport 4788
ip link set benchvx up
"""
_STATION = """
ip netns add {name}
ip link add {name} {master} mtu {mtu} type veth peer name eth0 mtu {mtu} netns {name}
ip link set {name} up
ip -n {name} address add {address}/24 dev eth0
ip -n {name} link set lo up
ip -n {name} link set eth0 up
"""
_ROUTER = """
ip address add 10.79.1.1/24 dev bench-n
ip -n bench-n route add default via 10.79.1.1
sysctl -qw net.ipv4.conf.bench-n.forwarding=1 net.ipv4.conf.eth1.forwarding=1
nft add table ip bench
nft add chain ip bench out '{ type nat hook postrouting priority srcnat; }'
nft add rule ip bench out ip saddr 10.79.1.0/24 oifname eth1 masquerade
"""
_REMOVE = """
for name in bench-a bench-b bench-c bench-n; do ip netns delete $name; done
ip link delete benchvx; ip link delete benchbr; nft delete table ip bench
sysctl -qw net.ipv4.conf.eth1.forwarding={forwarding}
"""
# The interface that has the primary network's address, and a tenant of each kind of network.
_INTERFACE = "ovn-udn1"
_LAYER2 = "topology: Layer2\n  layer2: {role: Primary, subnets: [10.78.0.0/24]}"
_LAYER3 = "topology: Layer3\n  layer3: {role: Primary, subnets: [{cidr: 10.78.0.0/16, hostSubnet: 24}]}"
TENANTS = {"bench-flat": "Layer2 with Services", "bench-routed": "Layer3", "bench-guarded": "Layer2, policy"}
_CLUSTER_IPS = {"b": "10.96.78.2", "c": "10.96.78.3"}
_WORKLOADS = {"a": "node1", "b": "node1", "c": "node2"}
_POLICY = """---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: guard, namespace: bench-guarded}
spec:
  podSelector: {}
  policyTypes: [Ingress, Egress]
  ingress: [{from: [{podSelector: {}}], ports: [{port: 5300}]}]
  egress: [{to: [{podSelector: {}}, {ipBlock: {cidr: 0.0.0.0/0}}], ports: [{port: 5300}]}]
"""


def manifests() -> str:
    """Return the YAML: three tenants with workloads a and b on node1 and c on node2, Services, a policy."""
    text = _POLICY
    for tenant, title in TENANTS.items():
        network = _LAYER3 if title == "Layer3" else _LAYER2
        text += f"---\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: {tenant}\n"
        text += '  labels: {k8s.ovn.org/primary-user-defined-network: ""}\n'
        text += "---\napiVersion: k8s.ovn.org/v1\nkind: UserDefinedNetwork\n"
        text += f"metadata: {{name: net, namespace: {tenant}}}\nspec:\n  {network}\n"
        for name, node in _WORKLOADS.items():
            text += "---\napiVersion: heddle.dev/v1\nkind: Workload\n"
            text += (
                f"metadata: {{name: {name}, namespace: {tenant}, labels: {{name: {name}}}}}\nspec: {{node: {node}}}\n"
            )
    for name in _CLUSTER_IPS:
        text += "---\napiVersion: v1\nkind: Service\n"
        text += f"metadata: {{name: {name}, namespace: bench-flat}}\n"
        text += f"spec: {{selector: {{name: {name}}}, clusterIP: {_CLUSTER_IPS[name]}, ports: [{{port: {_PORT}}}]}}\n"
    return text


@dataclass(frozen=True)
class Way:
    """From a namespace of node1 by one of its interfaces to an address of one of the hosts."""

    path: str
    name: str
    hosts: tuple[str, ...]
    namespace: str
    interface: str
    address: str


class Hosts:
    """The hosts of a lab whose kernels are processes of this machine."""

    def __init__(self, lab: Lab) -> None:
        self.lab, directory = lab, LabDirectory(lab.directory)
        state = directory.read() or {}
        if state.get("driver") not in MACHINES:
            raise SystemExit("the hosts of this lab have no kernels of their own: make lab DRIVER=uml")
        self._files = {name: runtime.of(directory, state.get("runtime")) / f"{name}.pid" for name in _HOSTS}

    def processor_times(self) -> dict[str, float]:
        """Return the processor seconds so far, by host, and those of the clock."""
        found = {name: processor_time(running(file)) for name, file in self._files.items()}
        return {**found, "clock": time.monotonic()}

    def address(self, host: str, interface: str, namespace: str = "") -> str:
        """Return the first IPv4 address of an interface."""
        inside = ["-n", namespace] if namespace else []
        (shown,) = json.loads(self.lab.ssh(host, "ip", *inside, "-4", "-j", "address", "show", "dev", interface))
        return shown["addr_info"][0]["local"]


@contextlib.contextmanager
def plain_linux(hosts: Hosts) -> Iterator[None]:
    """Have bridges, vxlan devices and a router on the hosts."""
    lab, underlay = hosts.lab, {node: hosts.address(node, "eth1") for node in ("node1", "node2")}
    before = lab.ssh("node1", "sysctl", "-n", "net.ipv4.conf.eth1.forwarding").strip()
    scripts = {"node1": _BRIDGE, "node2": _BRIDGE}
    for number, (name, node) in enumerate(_WORKLOADS.items(), 1):
        scripts[node] += _STATION.format(
            name=f"bench-{name}", master="master benchbr", mtu=_MTU, address=f"10.79.0.{number}"
        )
    scripts["node1"] += _STATION.format(name="bench-n", master="", mtu=_MTU, address="10.79.1.2") + _ROUTER
    try:
        for node, other in (("node1", "node2"), ("node2", "node1")):
            text = scripts[node].replace("{mtu}", str(_MTU))
            lab.ssh(node, "set -e" + text.replace("{own}", underlay[node]).replace("{other}", underlay[other]))
        yield
    finally:
        for node in ("node1", "node2"):
            lab.try_ssh(node, _REMOVE.format(forwarding=before))


@contextlib.contextmanager
def networks(lab: Lab) -> Iterator[None]:
    """Have the tenants on the hosts."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "data_plane.yml"
        try:
            file.write_text(manifests())
            lab.play("networks.yml", *OWN_SET, manifests=Path(folder))
            yield
        finally:
            file.write_text("---\n")
            lab.play("networks.yml", *OWN_SET, manifests=Path(folder))


def ways(hosts: Hosts) -> list[Way]:
    """Return all ways, of each path the plain one first."""
    found = []
    both, north = ("node1", "node2"), ("node1", "external")
    for path, name, node, names in (("same host", "b", "node1", ("node1",)), ("two hosts", "c", "node2", both)):
        plain = {"b": "10.79.0.2", "c": "10.79.0.3"}[name]
        found.append(Way(path, PLAIN, names, "bench-a", "eth0", plain))
        for tenant, title in TENANTS.items():
            address = hosts.address(node, _INTERFACE, f"{tenant}_{name}")
            found.append(Way(path, title, names, f"{tenant}_a", _INTERFACE, address))
        found.append(Way(path, "Layer2, cluster IP", names, "bench-flat_a", _INTERFACE, _CLUSTER_IPS[name]))
    path, address = "to the external host", hosts.address("external", "eth2")
    found.append(Way(path, PLAIN, both, "bench-n", "eth0", hosts.address("node2", "eth1")))
    found += [Way(path, title, north, f"{tenant}_a", _INTERFACE, address) for tenant, title in TENANTS.items()]
    return found


@contextlib.contextmanager
def streams(lab: Lab, chosen: list[Way]) -> Iterator[dict[str, RemoteProgram]]:
    """Yield the sender of each namespace of node1; all receivers listen."""
    ends = [("node1", f"{tenant}_b") for tenant in TENANTS] + [("node2", f"{tenant}_c") for tenant in TENANTS]
    ends += [("node1", "bench-b"), ("node2", "bench-c"), ("node2", ""), ("external", "")]
    programs = []
    try:
        for host, namespace in ends:
            programs.append(RemoteProgram(lab, host, "stream.py", "receive", _PORT, namespace=namespace))
        for program in programs:
            program.line()
        senders = {}
        for name in {way.namespace for way in chosen}:
            senders[name] = RemoteProgram(lab, "node1", "stream.py", "send", namespace=name)
            programs.append(senders[name])
        yield senders
    finally:
        for program in programs:
            program.end()


def measure(hosts: Hosts, rounds: int, megabytes: int) -> dict[tuple[Way, str, int], list[float]]:
    """Return processor seconds for a GB of each round, by way, kind, and number of the transfer in the round."""
    chosen = ways(hosts)
    found: dict[tuple[Way, str, int], list[float]] = {}
    with streams(hosts.lab, chosen) as senders:
        for number in range(rounds):
            for kind, offload in KINDS.items():
                for namespace, interface in {(way.namespace, way.interface) for way in chosen}:
                    options = ("tso", offload, "gso", offload)
                    hosts.lab.ssh("node1", "ip", "netns", "exec", namespace, "ethtool", "-K", interface, *options)
                before = hosts.processor_times()
                time.sleep(_IDLE)
                idle = _used(before, hosts.processor_times())
                for way, turn in _turns(chosen):
                    octets = megabytes * _TIMES_AS_MUCH.get((way.path, kind), 1) << 20
                    time.sleep(_SETTLE)
                    before = hosts.processor_times()
                    senders[way.namespace].go_on(way.address, _PORT, octets)
                    senders[way.namespace].line()
                    used = _used(before, hosts.processor_times())
                    cost = sum(used[host] - idle[host] * used["clock"] / idle["clock"] for host in way.hosts)
                    found.setdefault((way, kind, turn), []).append(cost * 1e9 / octets)
                    rate = 8e-6 * octets / used["clock"]
                    sys.stderr.write(f"{number + 1} {way.path}, {way.name}, {kind}: {cost:.2f} s, {rate:.0f} Mbit/s\n")
    return found


def _turns(chosen: list[Way]) -> Iterator[tuple[Way, int]]:
    """The ways of a round: those of a path between two turns of the plain one."""
    for path in dict.fromkeys(way.path for way in chosen):
        first, *others = (way for way in chosen if way.path == path)
        yield from ((first, 0), *((way, 0) for way in others), (first, 1))


def _used(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    return {name: after[name] - before[name] for name in before}


def rows(found: dict[tuple[Way, str, int], list[float]]) -> list[list[str]]:
    """Return the lines of the table."""
    plain = {(way.path, kind, turn): values for (way, kind, turn), values in found.items() if way.name == PLAIN}
    lines = []
    for (way, kind, turn), values in found.items():
        ends = list(zip(plain[way.path, kind, 0], plain[way.path, kind, 1], strict=True))
        if turn:
            ratios, name = [last / first for first, last in ends], "noise"
        else:
            ratios = [value / statistics.mean(pair) for value, pair in zip(values, ends, strict=True)]
            name = way.name
        lines.append(
            [way.path, kind, name, f"{statistics.median(values):.2f}", "" if name == PLAIN else _spread(ratios)]
        )
    paths = list(dict.fromkeys(line[0] for line in lines))
    return sorted(lines, key=lambda line: (paths.index(line[0]), line[1]))


def _spread(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--megabytes", type=int, default=128, help="of a transfer; more within a host")
    options = parser.parse_args()
    lab = Lab(Path(os.environ.get("LAB_DIR") or ROOT / ".lab"))
    hosts = Hosts(lab)
    with networks(lab), plain_linux(hosts):
        found = measure(hosts, options.rounds, options.megabytes)
    header = ["path", "TCP", "way", "s/GB", "ratio"]
    print("\n".join(table(f"processor seconds of the hosts; load {os.getloadavg()[0]:.1f}", header, rows(found))))


if __name__ == "__main__":
    main()
