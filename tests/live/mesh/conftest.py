# SPDX-License-Identifier: Apache-2.0
"""Hosts of a mesh as network namespaces: each with an Open vSwitch of its own and the daemon of the mesh.

Packets go through the userspace datapath. The underlay is a bridge in a further namespace; of two hosts that have no
direct path both ports there are isolated. Frames of workloads are sent and received as bytes, by the far end of a
veth pair whose near end is the workload's port.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.agent.topology import apply_rows
from ansible_collections.heddle.ovn.plugins.module_utils.common.naming import MESH_BRIDGE
from ansible_collections.heddle.ovn.plugins.module_utils.mesh_daemon.status_client import ask
from ansible_collections.heddle.ovn.plugins.module_utils.netlink import kernel
from ansible_collections.heddle.ovn.plugins.module_utils.render.host.mesh import (
    mesh_ports,
    render_mesh_bridge,
    render_mesh_gateways,
)
from ansible_collections.heddle.ovn.plugins.module_utils.render.host.vswitch import TABLES
from tests.live.conftest import START_TIMEOUT, Server, start, stop, wait_for
from tests.live.gateway.packets import mac_bytes
from tests.live.mesh.wire import Wire
from tests.live.tls import Authority

PROJECT = Path(__file__).parents[3]
REPEAT_SECONDS = 5.0
_RUN = """
import json, os, random, sys
if os.environ.get("FIRST_SHORT_ID"):
    ids, any_number = [int(os.environ["FIRST_SHORT_ID"])], random.SystemRandom.randrange
    def randrange(self, *limits):
        return ids.pop() if ids and limits == (4096,) else any_number(self, *limits)
    random.SystemRandom.randrange = randrange
from ansible_collections.heddle.ovn.plugins.module_utils.mesh_daemon import daemon, service
plan, node, bridge, status, key, certificate, authority = sys.argv[1:]
paths = daemon.Paths(bridge, status, daemon.Certificates(key, certificate, authority))
log = lambda text: print(text, file=sys.stderr, flush=True)
service.run(plan, node, lambda path: json.load(open(path)), paths, log)
"""


def ip(*arguments: str) -> str:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, f"ip {' '.join(arguments)}: {done.stderr}"
    return done.stdout


class Host:
    """One host. `wires` are its workloads' ends by `namespace/name`."""

    datapath = "netdev"

    def __init__(self, tools, folder, prefix: str, node: str) -> None:
        self.tools, self.node, self.folder = tools, node, folder / node
        self.folder.mkdir()
        self.netns = f"{prefix}{node}"
        self.database, self.process, self.daemon = None, None, None
        self.wires: dict[str, Wire] = {}
        self.stations: list[str] = []
        self.plan_file = self.folder / "plan.json"

    def boot(self, underlay: str, address: str, length: int) -> None:
        """Make the namespace, its link to the underlay, and start Open vSwitch."""
        kernel.create_namespace(self.netns, "")
        ip("link", "add", f"u-{self.node}", "netns", underlay, "type", "veth",
           "peer", "name", "eth1", "netns", self.netns)  # fmt: skip
        ip("-n", underlay, "link", "set", f"u-{self.node}", "master", "underlay", "up")
        self.ip("link", "set", "lo", "up")
        # Open vSwitch in user space sees eth1's frames beside the kernel, which must not answer ARP requests for the
        # address of br-phy with eth1's MAC address: frames to that one reach the daemon past the bridge and its flows.
        ip("netns", "exec", self.netns, "sysctl", "-qw", "net.ipv4.conf.eth1.arp_ignore=1")
        self.ip("link", "set", "eth1", "up")
        self.database = Server(self.tools, self.folder, "Open_vSwitch", self.tools.schema("Open_vSwitch"))
        self.vsctl("--no-wait", "init")
        self.start_vswitchd()
        self.vsctl("add-br", "br-phy", "--", "set", "bridge", "br-phy", "datapath_type=netdev",
                   "--", "add-port", "br-phy", "eth1")  # fmt: skip
        self._address = [
            "address",
            "replace",
            f"{address}/{length}",
            "dev",
            "br-phy",
            *(["nodad"] if ":" in address else []),
        ]
        self.address_underlay()

    def address_underlay(self) -> None:
        """Give the underlay's bridge its address, which it loses with ovs-vswitchd."""
        wait_for(lambda: "br-phy" in self.ip("link"), "br-phy", self.process)
        self.ip(*self._address)
        self.ip("link", "set", "br-phy", "up")

    def start_vswitchd(self) -> None:
        """Start ovs-vswitchd in the namespace."""
        options = ("--disable-system", self.database.remote)
        with kernel.in_netns(self.netns):
            self.process = start(
                self.tools, self.folder, "vswitchd", "ovs-vswitchd", *options,
                environment={"OVS_RUNDIR": str(self.folder)},
            )  # fmt: skip
        wait_for(lambda: (self.folder / "vswitchd.ctl").exists(), "ovs-vswitchd", self.process)

    def start_daemon(self, authority: Authority, short_id: str = "") -> None:
        """Start the daemon of the mesh, with a certificate of the authority. It chooses this short id first."""
        files = authority.issue(self.node)
        arguments = [str(self.plan_file), self.node, str(self.folder / f"{MESH_BRIDGE}.mgmt"), str(self.status_socket),
                     files.private_key, files.certificate, files.ca_certificate]  # fmt: skip
        with (self.folder / "mesh.log").open("a") as log, kernel.in_netns(self.netns):
            self.daemon = subprocess.Popen(
                [sys.executable, "-c", _RUN, *arguments],
                stdin=subprocess.DEVNULL, stderr=log,
                env={**os.environ, "PYTHONPATH": str(PROJECT / "collections"), "FIRST_SHORT_ID": short_id},
            )  # fmt: skip

    def memory(self) -> int:
        """The daemon's resident memory in bytes (proc_pid_statm(5))."""
        text = Path(f"/proc/{self.daemon.pid}/statm").read_text()
        return int(text.split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def apply(self, plan: dict) -> None:
        """Write the plan and make the bridge; the wires of the host's workloads come first, as a host has them."""
        for network, ports in mesh_ports(plan, self.node).items():
            for port, mac in ports.items():
                names = [
                    (name, one) for name, workload in plan["workloads"].items() for one in workload["interfaces"]
                    if one["network"] == network and one["mac"] == mac
                ]  # fmt: skip
                key = names[0][0]
                if key not in self.wires:
                    self.wires[key] = Wire(self.netns, port, f"w{len(self.wires)}", names[0][1])
        with self.database.client() as client:
            for owner, render in (("gateway", render_mesh_gateways), ("workload", render_mesh_bridge)):
                rows = render(plan, self.node, self.datapath)
                apply_rows(client, "Open_vSwitch", rows, f"test:{owner}", TABLES, write=True)
        temporary = self.plan_file.with_suffix(".new")
        temporary.write_text(json.dumps(plan))
        temporary.replace(self.plan_file)

    @property
    def status_socket(self) -> Path:
        return self.folder / "mesh.sock"

    def status(self) -> dict:
        """What the daemon reports; empty while it does not answer."""
        try:
            return ask(str(self.status_socket))
        except (OSError, ValueError):
            return {}

    def answered(self) -> dict:
        """What the daemon reports, as soon as it answers."""
        found: dict = {}
        wait_for(lambda: found.update(self.status()) or found, f"an answer of the daemon of {self.node}")
        return found

    def connection(self, node: str) -> dict:
        """What the daemon reports of the connection to another host; empty while it does not answer."""
        return next((one for one in self.status().get("connections", ()) if one["node"] == node), {})

    def overlay(self, node: str) -> str | None:
        """The overlay that carries what this host sends to another one."""
        return self.connection(node).get("overlay")

    def states(self) -> dict[str, str]:
        """The state of each connection by the other host."""
        return {one["node"]: one["state"] for one in self.status().get("connections", ())}

    def ip(self, *arguments: str) -> str:
        return ip("-n", self.netns, *arguments)

    def vsctl(self, *arguments: str) -> None:
        self.tools.run("ovs-vsctl", f"--db={self.database.remote}", "--timeout=60", *arguments)

    def flows(self) -> list[str]:
        """The learned flows of the bridge."""
        text = self.tools.run("ovs-ofctl", "-O", "OpenFlow13", "dump-flows", f"unix:{self.folder}/{MESH_BRIDGE}.mgmt")
        return [line.strip() for line in text.splitlines() if "priority=100" in line]

    def impair(self, *flows: str) -> None:
        """Change what this host's end of the underlay lets through, by flows of its bridge; without any, everything."""
        switch = f"unix:{self.folder}/br-phy.mgmt"
        self.tools.run("ovs-ofctl", "-O", "OpenFlow13", "del-flows", switch)
        for flow in ("priority=0,actions=NORMAL", *flows):
            self.tools.run("ovs-ofctl", "-O", "OpenFlow13", "add-flow", switch, flow)

    def swallow(self, size: int) -> None:
        """Drop received frames that are longer than `size`, without a notice."""
        self.impair(
            f"priority=10,in_port=eth1,actions=check_pkt_larger({size})->NXM_NX_REG0[0],resubmit(,1)",
            "table=1,priority=10,reg0=0x1/0x1,actions=drop",
            "table=1,priority=0,actions=NORMAL",
        )

    def station(self, workload: str, mtu: int) -> str:
        """Give a workload a kernel of its own in place of the wire; the name of its namespace."""
        wire = self.wires.pop(workload)
        wire.close()
        netns = f"{self.netns}-{wire.name}"
        kernel.create_namespace(netns, "")
        self.stations.append(netns)
        self.ip("link", "set", wire.name, "netns", netns)
        if self.datapath == "netdev":
            # Open vSwitch in user space gets frames as they are: with their checksums, and none longer than the MTU.
            ip("netns", "exec", netns, "ethtool", "-K", wire.name, "tx", "off")
        ip("-n", netns, "link", "set", wire.name, "arp", "on", "mtu", str(mtu), "up")
        for one in wire.addresses:
            length, flags = ("64", ["nodad"]) if ":" in one else ("24", [])
            ip("-n", netns, "address", "add", f"{one}/{length}", "dev", wire.name, *flags)
        return netns

    def end(self) -> None:
        """End everything of the host."""
        for process in (self.daemon, self.process, self.database and self.database.process):
            if process is not None and process.poll() is None:
                stop(process)
        for wire in self.wires.values():
            wire.close()
        for netns in (*self.stations, self.netns):
            kernel.remove_namespace(netns)


class Fleet:
    """The hosts of a test by name, and the workloads on them."""

    def __init__(self, tools, folder, prefix: str, host: type[Host] = Host) -> None:
        self._tools, self.folder, self._prefix, self._host = tools, folder, prefix, host
        self.underlay = f"{prefix}underlay"
        self.hosts: dict[str, Host] = {}
        self.authority = Authority(folder, "authority")
        self.plan: dict = {}
        kernel.create_namespace(self.underlay, "")
        ip("-n", self.underlay, "link", "add", "name", "underlay", "type", "bridge", "mcast_snooping", "0")
        ip("-n", self.underlay, "link", "set", "underlay", "up")

    def start(self, plan: dict, apart: tuple[str, ...] = (), short_id: str = "") -> None:
        """Boot the hosts of a plan, `apart` without a path between them, and wait until connections carry frames.

        All daemons choose `short_id` first, if one is given.
        """
        self.plan = plan
        for node, described in plan["nodes"].items():
            address = described["encap_ips"][0]
            host = self.hosts[node] = self._host(self._tools, self.folder, self._prefix, node)
            host.boot(self.underlay, address, 64 if ":" in address else 24)
        self.isolate(*apart)
        for host in self.hosts.values():
            host.apply(plan)
            host.start_daemon(self.authority, short_id)
        self.wait_established()

    def apply(self, plan: dict) -> None:
        """Apply another plan of the same hosts to all of them."""
        self.plan = plan
        for host in self.hosts.values():
            host.apply(plan)

    def wait_established(self) -> None:
        """Wait until each connection of each host carries frames, and all know the routes."""

        def established() -> bool:
            for host in self.hosts.values():
                states, others = host.states(), host.status().get("peers", {})
                if not states or set(states.values()) != {"established"} or len(others) != len(self.hosts) - 1:
                    return False
                if not all(peer["next_hop"] for peer in others.values()):
                    return False
            return True

        wait_for(established, "the mesh")

    def isolate(self, *nodes: str) -> None:
        """Cut the direct path between these hosts."""
        for node in nodes:
            subprocess.run(
                ["ip", "netns", "exec", self.underlay, "bridge", "link", "set", "dev", f"u-{node}", "isolated", "on"],
                check=True, timeout=120,
            )  # fmt: skip

    def wire(self, workload: str) -> Wire:
        """The end of a workload."""
        return next(host.wires[workload] for host in self.hosts.values() if workload in host.wires)

    def mac(self, workload: str) -> bytes:
        return mac_bytes(self.wire(workload).mac)

    def receive_all(self, seconds: float = 0.5, expected: dict[str, int] | None = None) -> dict[str, list[bytes]]:
        """What each workload has received when nothing more has come for some time.

        `expected` is how many frames are waited for first, by workload: nothing says how long they take.
        """
        received: dict[str, list[bytes]] = {}
        wanted, latest = expected or {}, time.monotonic() + START_TIMEOUT
        quiet = time.monotonic() + seconds
        while True:
            for host in self.hosts.values():
                for name, wire in host.wires.items():
                    while (frame := wire.receive()) is not None:
                        received.setdefault(name, []).append(frame)
                        quiet = time.monotonic() + seconds
            is_complete = all(len(received.get(name, ())) >= count for name, count in wanted.items())
            if time.monotonic() >= (quiet if is_complete else latest):
                return received
            time.sleep(0.01)

    def arrive_once(self, source: str, make: Callable[[bytes], bytes], expected: set[str], never: bytes = b"") -> None:
        """Let a workload send frames, each with another text, until two have arrived everywhere they should.

        Each arrives at most once, and nowhere else; so does nothing but late frames of workloads, and of these not
        `never`. Two, as what became of the first is known when the second one has arrived; more, as a mesh loses frames
        while a connection changes its overlay, which a host that stands still for seconds can cause.
        """
        before = [frame for host in self.hosts.values() for wire in host.wires.values() for frame in wire.sent]
        frames: list[bytes] = []
        received: list[tuple[str, bytes]] = []

        def read(seconds: float = 0) -> None:
            received.extend((name, one) for name, found in self.receive_all(seconds).items() for one in found)

        def places(frame: bytes) -> list[str]:
            return sorted(name for name, one in received if one[: len(frame)] == frame)

        due = 0.0

        def arrived() -> bool:
            nonlocal due
            if time.monotonic() >= due:
                due = time.monotonic() + REPEAT_SECONDS
                frames.append(make(b"%08d" % len(frames)))
                self.wire(source).send(frames[-1])
            read()
            return places(frames[-1]) == sorted(expected)

        for _time in range(2):
            due = 0.0
            wait_for(arrived, f"frames of {source} at {', '.join(sorted(expected))}")
        read(0.5)
        for frame in frames:
            assert len({*places(frame)}) == len(places(frame)), f"twice: {places(frame)}"
            assert {*places(frame)} <= expected
        others = [one for one in received if not any(one[1][: len(frame)] == frame for frame in frames)]
        late = [one for one in others if any(one[1][: len(frame)] == frame for frame in before)]
        assert others == late, others
        assert not [one for one in late if never and one[1][: len(never)] == never]

    def end(self) -> None:
        for host in self.hosts.values():
            host.end()
        kernel.remove_namespace(self.underlay)


@pytest.fixture
def fleet(tools, folder):
    """A fleet without hosts; its namespaces and processes end with the test."""
    if os.geteuid():
        pytest.skip("needs root: hosts are network namespaces")
    made = Fleet(tools, folder, f"h{os.getpid()}-")
    yield made
    # pytest shows it when the test has failed.
    for host in made.hosts.values():
        log = host.folder / "mesh.log"
        print(f"=== {host.node}\n{log.read_text() if log.exists() else ''}{json.dumps(host.status(), indent=1)}")
    made.end()
