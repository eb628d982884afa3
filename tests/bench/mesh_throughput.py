# SPDX-License-Identifier: Apache-2.0
"""What a mesh carries over the kernel datapath, beside a plain vxlan device between the same hosts.

    python -m tests.bench.mesh_throughput

Two hosts are network namespaces of a guest of User Mode Linux, without root: Open vSwitch with the kernel datapath, and
a Linux bridge with a vxlan device. Workloads are on both, each in a namespace behind a veth pair with the same MTU and
the same offloads, which is asserted. Then the same with encryption, where the vxlan device has ESP with the same
algorithm and keys that stay, and over the fallback.

A round is four transfers, plain, mesh, mesh, plain. What counts is the processor time of the guest, which has one
processor: throughput on an idle machine is its inverse. That of an idle guest for the same time is subtracted. `ratio`
is the time of the outer ones by that of the inner ones, `noise` that of the last by the first. Figures are medians of
the rounds, with the lowest and the highest. `lower halves` is the ratio of the means of the shorter half of all
transfers of each side, which other work on the machine has disturbed least. `segment` is how many bytes a frame of the
workload has that enters the bridge.
"""

from __future__ import annotations

import contextlib
import json
import re
import statistics
import time

from ansible_collections.heddle.ovn.plugins.module_utils.common.naming import MESH_BRIDGE
from ansible_collections.heddle.ovn.plugins.module_utils.netlink import kernel
from tests.bench import guest
from tests.bench.rate import datagrams, first_packet, rate, transfer
from tests.live.conftest import Server, make_toolbox, start, wait_for
from tests.live.mesh.conftest import Fleet, Host, ip
from tests.live.mesh.test_encryption import plan

MTU = 1400
_ROUNDS, _DATAGRAMS = 7, 1 << 14
# Bytes of a TCP transfer, without encryption and with it.
_OCTETS = {"": 1 << 28, "encrypted-": 1 << 25}
_PLAIN = {"node1": "10.99.0.1", "node2": "10.99.0.2"}
_VXLAN_LOST = (
    "add table inet bench",
    "add chain inet bench in { type filter hook input priority 0; }",
    "add rule inet bench in udp dport 6784 drop",
)
_OFFLOADS = ("tx-checksumming", "scatter-gather", "tcp-segmentation-offload", "generic-segmentation-offload")


class KernelHost(Host):
    """A host whose Open vSwitch forwards in the kernel, beside a bridge with a vxlan device made by hand."""

    datapath = "system"

    def boot(self, underlay: str, address: str, length: int) -> None:
        self.address = address
        kernel.create_namespace(self.netns, "")
        ip("link", "add", f"u-{self.node}", "netns", underlay, "type", "veth",
           "peer", "name", "eth1", "netns", self.netns)  # fmt: skip
        ip("-n", underlay, "link", "set", f"u-{self.node}", "master", "underlay", "up")
        self.ip("link", "set", "lo", "up")
        self.ip("address", "add", f"{address}/{length}", "dev", "eth1")
        self.ip("link", "set", "eth1", "up")
        self.database = Server(self.tools, self.folder, "Open_vSwitch", self.tools.schema("Open_vSwitch"))
        self.vsctl("--no-wait", "init")
        with kernel.in_netns(self.netns):
            self.process = start(
                self.tools, self.folder, "vswitchd", "ovs-vswitchd", self.database.remote,
                environment={"OVS_RUNDIR": str(self.folder)},
            )  # fmt: skip
        wait_for(lambda: (self.folder / "vswitchd.ctl").exists(), "ovs-vswitchd", self.process)
        other = address[:-1] + ("2" if address.endswith("1") else "1")
        self.ip("link", "add", "plain", "type", "bridge", "mcast_snooping", "0")
        self.ip("link", "add", "vx", "type", "vxlan", "id", "77", "local", address, "remote", other, "dstport", "4788")
        station = f"{self.netns}-plain"
        kernel.create_namespace(station, "")
        self.stations.append(station)
        self.ip("link", "add", "near", "type", "veth", "peer", "name", "far", "netns", station)
        for device in ("vx", "near"):
            self.ip("link", "set", device, "master", "plain", "up")
        self.ip("link", "set", "plain", "up")
        ip("-n", station, "address", "add", f"{_PLAIN[self.node]}/24", "dev", "far")
        ip("-n", station, "link", "set", "far", "mtu", str(MTU), "up")

    def seal(self, other: str) -> None:
        """Give packets between the vxlan devices of this host and another one ESP, as the mesh has it."""
        for direction, source, destination in (("out", self.address, other), ("in", other, self.address)):
            pair = ("src", source, "dst", destination)
            # The same on both hosts, and another one for each direction.
            spi = "0x1001" if source < destination else "0x1002"
            key = "0x" + 10 * spi[2:]
            self.ip("xfrm", "state", "add", *pair, "proto", "esp", "spi", spi, "reqid", "77", "mode", "transport",
                    "replay-window", "256", "flag", "esn", "aead", "rfc4106(gcm(aes))", key, "128")  # fmt: skip
            self.ip("xfrm", "policy", "add", *pair, "proto", "udp", "dport", "4788", "dir", direction,
                    "tmpl", "proto", "esp", "reqid", "77", "mode", "transport", "level", "required")  # fmt: skip

    def forget(self, mac: str) -> None:
        """Delete the flows for frames of an address."""
        for end in ("dl_src", "dl_dst"):
            switch = f"unix:{self.folder}/{MESH_BRIDGE}.mgmt"
            self.tools.run("ovs-ofctl", "-O", "OpenFlow13", "del-flows", switch, f"{end}={mac}")


def test_throughput(tmp_path):
    """In the guest, where pytest runs it: print the figures."""
    found = {}
    for encryption in ("none", "esp"):
        with _fleet(tmp_path, encryption) as fleet:
            if encryption == "esp":
                first, second = fleet.hosts["node1"], fleet.hosts["node2"]
                first.seal(second.address)
                second.seal(first.address)
            found |= _measured(fleet, "encrypted-" if encryption == "esp" else "")
    guest.show(found)


@contextlib.contextmanager
def _fleet(folder, encryption: str):
    folder = folder / encryption
    folder.mkdir()
    fleet = Fleet(make_toolbox(), folder, f"{encryption}-", KernelHost)
    try:
        fleet.start(plan(encryption))
        yield fleet
    finally:
        fleet.end()


def _measured(fleet: Fleet, which: str) -> dict[str, str]:
    first, second = fleet.hosts["node1"], fleet.hosts["node2"]
    wait_for(lambda: _overlays(first, second) == {"fastdp"}, "the fast datapath")
    macs, address = (fleet.wire("red/a1").mac, fleet.wire("red/a2").mac), fleet.wire("red/a2").addresses[0]
    device = fleet.wire("red/a1").name
    mesh = first.station("red/a1", MTU), second.station("red/a2", MTU), address
    plain = f"{first.netns}-plain", f"{second.netns}-plain", _PLAIN["node2"]
    devices = {mesh[0]: device, plain[0]: "far"}
    assert _offloads(mesh[0], devices[mesh[0]]) == _offloads(plain[0], "far")

    def forget() -> None:
        for host in (first, second):
            for mac in macs:
                host.forget(mac)

    found: dict[str, list[float]] = {}
    for _round in range(_ROUNDS):
        guest.metered(f"{which}idle", lambda: time.sleep(1))
        for what, measure in (("TCP", transfer), ("64B", datagrams)):
            for place, ends in enumerate((plain, mesh, mesh, plain)):
                amount = _OCTETS[which] if what == "TCP" else _DATAGRAMS
                before = _sent(ends[0], devices[ends[0]])
                guest.metered(f"{which}{what}-{place}", lambda: measure(*ends, amount))  # noqa: B023
                after = _sent(ends[0], devices[ends[0]])
                frames, sent = (now - then for now, then in zip(after, before, strict=True))
                side = "mesh" if ends is mesh else "plain"
                found.setdefault(f"{which}{what} segment {side}", []).append(sent / frames)
    figures = {name: _spread(values) for name, values in found.items()}
    figures |= {f"{which}changes of {host.node}": str(_changes(host)) for host in (first, second)}
    figures |= _flows(first, which) | _flows(second, which)
    usual, new = first_packet(*mesh, lambda: None, 30), first_packet(*mesh, forget, 30)
    figures |= {f"{which}packet ms": f"{1000 * usual:.2f}", f"{which}first packet of a flow ms": f"{1000 * new:.2f}"}
    if not which:
        for host in (first, second):
            for line in _VXLAN_LOST:
                ip("netns", "exec", host.netns, "nft", line)
        wait_for(lambda: _overlays(first, second) == {"sleeve"}, "the fallback")
        figures["fallback Mbit/s"] = _spread([rate(*mesh, 2.0) for _round in range(3)])
    return figures


def _overlays(first: Host, second: Host) -> set[str | None]:
    return {first.overlay("node2"), second.overlay("node1")}


def _changes(host: Host) -> list[str]:
    """The changes of the host's overlay: one or more after the first mean that other things were measured, too."""
    return [line for line in (host.folder / "mesh.log").read_text().splitlines() if ", before over " in line]


def _spread(values: list[float]) -> str:
    return f"{statistics.median(values):.3g} ({min(values):.3g} to {max(values):.3g})"


def _offloads(netns: str, device: str) -> list[str]:
    """What the kernel may leave to a device, as ethtool(8) shows it."""
    shown = ip("netns", "exec", netns, "ethtool", "-k", device)
    return [line for line in shown.splitlines() if line.startswith(_OFFLOADS)]


def _sent(netns: str, device: str) -> tuple[int, int]:
    """Packets and bytes that a device has sent; one that is segmented later counts once."""
    (link,) = json.loads(ip("-n", netns, "-j", "-s", "link", "show", "dev", device))
    return link["stats64"]["tx"]["packets"], link["stats64"]["tx"]["bytes"]


def _flows(host: KernelHost, which: str) -> dict[str, str]:
    """The flows of the datapath that TCP has used most."""
    text = host.tools.run("ovs-appctl", "-t", str(host.folder / "vswitchd.ctl"), "dpctl/dump-flows", "--names")
    lines = [line for line in text.splitlines() if "ipv4" in line]
    used = sorted(lines, key=lambda line: -int((re.search(r"bytes:(\d+)", line) or ["", "0"])[1]))
    return {f"{which}flow of {host.node}": line for line in used[:1]}


def costs(metered: dict[str, list[tuple[float, float]]]) -> dict[str, str]:
    """Return the figures of what was metered: by GB, or by 1,000 packets."""
    found = {}
    for which, octets in _OCTETS.items():
        if f"{which}TCP-3" not in metered:
            continue
        idle = sum(used for used, _clock in metered[f"{which}idle"])
        share = idle / sum(clock for _used, clock in metered[f"{which}idle"])
        found[f"{which}idle processor share"] = f"{share:.3f}"
        for what in ("TCP", "64B"):
            unit = 1e9 / octets if what == "TCP" else 1e3 / _DATAGRAMS
            sides = [
                [unit * (used - share * clock) for used, clock in metered[f"{which}{what}-{place}"]]
                for place in range(4)
            ]
            rounds = list(zip(*sides, strict=False))
            found[f"{which}{what} plain seconds"] = _spread(sides[0] + sides[3])
            found[f"{which}{what} mesh seconds"] = _spread(sides[1] + sides[2])
            found[f"{which}{what} ratio"] = _spread([(one[0] + one[3]) / (one[1] + one[2]) for one in rounds])
            halves = [
                statistics.mean(sorted(side)[: len(side) // 2]) for side in (sides[0] + sides[3], sides[1] + sides[2])
            ]
            found[f"{which}{what} ratio of lower halves"] = f"{halves[0] / halves[1]:.3g}"
            found[f"{which}{what} noise"] = _spread([one[3] / one[0] for one in rounds])
    return found


if __name__ == "__main__":
    guest.main("tests/bench/mesh_throughput.py", costs)
