# SPDX-License-Identifier: Apache-2.0
"""What a mesh carries over the kernel datapath, beside a plain vxlan device between the same hosts.

    python -m tests.bench.mesh_throughput

Two hosts are network namespaces of a guest of User Mode Linux, without root: Open vSwitch with the kernel datapath, and
a Linux bridge with a vxlan device. Workloads are on both, each in a namespace behind a veth pair. Rounds take turns;
ratios are those of neighbouring rounds, medians of all. Then the same with encryption, and over the fallback.
"""

from __future__ import annotations

import contextlib
import statistics

from ansible_collections.heddle.ovn.plugins.module_utils.common.naming import MESH_BRIDGE
from ansible_collections.heddle.ovn.plugins.module_utils.netlink import kernel
from tests.bench import guest
from tests.bench.rate import first_packet, rate, small_packets
from tests.live.conftest import Server, make_toolbox, start, wait_for
from tests.live.mesh.conftest import Fleet, Host, ip
from tests.live.mesh.test_encryption import plan

MTU = 1400
_ROUNDS, _SECONDS = 9, 0.6
_PLAIN = {"node1": "10.99.0.1", "node2": "10.99.0.2"}
_VXLAN_LOST = (
    "add table inet bench",
    "add chain inet bench in { type filter hook input priority 0; }",
    "add rule inet bench in udp dport 6784 drop",
)


class KernelHost(Host):
    """A host whose Open vSwitch forwards in the kernel, beside a bridge with a vxlan device made by hand."""

    datapath = "system"

    def boot(self, underlay: str, address: str, length: int) -> None:
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
            found |= _measured(fleet, "encrypted " if encryption == "esp" else "")
    guest.show({name: round(value, 3) for name, value in found.items()})


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


def _measured(fleet: Fleet, which: str) -> dict[str, float]:
    first, second = fleet.hosts["node1"], fleet.hosts["node2"]
    wait_for(lambda: {first.overlay("node2"), second.overlay("node1")} == {"fastdp"}, "the fast datapath")
    macs, address = (fleet.wire("red/a1").mac, fleet.wire("red/a2").mac), fleet.wire("red/a2").addresses[0]
    mesh = first.station("red/a1", MTU), second.station("red/a2", MTU), address
    plain = f"{first.netns}-plain", f"{second.netns}-plain", _PLAIN["node2"]

    def forget() -> None:
        for host in (first, second):
            for mac in macs:
                host.forget(mac)

    found: dict[str, list[float]] = {}
    for _round in range(_ROUNDS):
        for what, measure in (("TCP", rate), ("64 bytes", small_packets)):
            before, own, after = (measure(*ends, _SECONDS) for ends in (plain, mesh, plain))
            found.setdefault(f"{what} plain vxlan", []).append(before)
            found.setdefault(f"{which}{what}", []).append(own)
            found.setdefault(f"{which}{what} ratio", []).append(2 * own / (before + after))
    figures = {name: statistics.median(values) for name, values in found.items()}
    usual, new = first_packet(*mesh, lambda: None, 30), first_packet(*mesh, forget, 30)
    figures |= {f"{which}packet ms": 1000 * usual, f"{which}first packet of a flow ms": 1000 * new}
    if not which:
        for host in (first, second):
            for line in _VXLAN_LOST:
                ip("netns", "exec", host.netns, "nft", line)
        wait_for(lambda: {first.overlay("node2"), second.overlay("node1")} == {"sleeve"}, "the fallback")
        figures["fallback TCP"] = statistics.median(rate(*mesh, 2.0) for _round in range(3))
    return figures


if __name__ == "__main__":
    guest.main("tests/bench/mesh_throughput.py")
