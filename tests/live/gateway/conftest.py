# SPDX-License-Identifier: Apache-2.0
"""One whole host without a kernel: its databases, northd, ovn-controller and an ovs-vswitchd with dummy interfaces."""

from __future__ import annotations

import itertools
import re
import subprocess
import time
from collections import deque
from pathlib import Path

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.errors import ProgramError
from ansible_collections.heddle.ovn.plugins.module_utils.openflow.management_connection import (
    VERSION_1_4,
    connected,
    management_socket,
)
from ansible_collections.heddle.ovn.plugins.module_utils.openflow.reconcile import reconcile_flows
from ansible_collections.heddle.ovn.plugins.module_utils.openflow.switch import Switch
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.reconcile import reconcile
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.values import Scope
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.wait import synchronise
from ansible_collections.heddle.ovn.plugins.module_utils.render.common.host_plan import host_plan
from ansible_collections.heddle.ovn.plugins.module_utils.render.gateway.bridge import (
    render_flood_ports,
    render_static_macs,
)
from ansible_collections.heddle.ovn.plugins.module_utils.render.gateway.bridge_flows import render_bridge_flows
from ansible_collections.heddle.ovn.plugins.module_utils.render.host.links_and_routes import (
    render_management_ports,
)
from ansible_collections.heddle.ovn.plugins.module_utils.render.host.vswitch import TABLES
from tests.live.conftest import START_TIMEOUT, Server, start, stop, wait_for
from tests.live.control_socket import Refused, call
from tests.live.gateway.packets import Answer, Capture, Packet, Question, packet_out, tagged
from tests.live.gateway.shared_host import SharedHost
from tests.live.topology.zone import Zone
from tests.pipeline import with_gateways, with_nics

BRIDGE, UPLINK, MAC = "breth1", "eth1", "02:00:00:00:00:01"
NEXT_HOP_MAC = "0a:00:00:00:00:fe"
EGRESS_HOST = {"k8s.ovn.org/egress-assignable": ""}
NEXT_HOPS = ("192.0.2.1", "2001:db8::1")
# ovn-controller drops packets that have waited ten seconds for a neighbour's MAC address (BUFFERED_PACKETS_TIMEOUT_MS),
# which a daemon or a test that stands still lets pass. So a frame is repeated, as hosts do; only so often for each
# machine, so that a product that always loses the first packet does not pass.
LOST_SECONDS, REPETITIONS = 30.0, 2
_PACKETS_CONNECTED = re.compile(r"rconn\(ovn_pinctrl\d*\)\|INFO\|.*: connected")


def interface_of(namespace: str, name: str = "a") -> str:
    """The port of Open vSwitch that stands for a workload's interface."""
    return f"if-{namespace}" if name == "a" else f"if-{namespace}-{name}"


class Host:
    """node1 of a plan, with every packet that its interfaces send."""

    def __init__(self, tools, folder, vswitch) -> None:
        self.tools, self.folder, self.vswitch = tools, folder, vswitch
        self.processes: list[subprocess.Popen] = []
        self._captures: dict[str, Capture] = {}
        self._copies: dict[str, str] = {}
        # Requests of gateway routers, by their place among what was sent to the uplink.
        self._answered: set[int] = set()
        # Source ports, each for one connection of the tests that share the host.
        self.ports = itertools.count(5000)
        # What the provider network's frames are tagged with at the uplink; 0 for none.
        self.vlan = 0
        # What came in since the last exchange, apart from what exchanges add.
        self._unanswered: deque[tuple[str, list[bytes]]] = deque(maxlen=100)
        self._is_exchanging, self._repetitions = False, 0

    def start(self, southbound: Server, environment: dict[str, str] | None = None) -> None:
        """Start Open vSwitch and ovn-controller, which has a further environment."""
        tools, folder, vswitch = self.tools, self.folder, self.vswitch
        settings = {
            "system-id": "chassis-of-node1", "ovn-remote": southbound.remote, "ovn-encap-type": "geneve",
            "ovn-encap-ip": "198.18.1.11", "ovn-is-interconn": "true", "ovn-monitor-all": "true",
            "ovn-bridge-mappings": f"physnet:{BRIDGE}",
        }  # fmt: skip
        ids = [f"external_ids:{key}={value}" for key, value in settings.items()]
        # In one transaction, which ovs-vswitchd finds when it starts.
        self.vsctl(
            "--no-wait", "set", "Open_vSwitch", ".", *ids,
            "--", "add-br", "br-int", "--", "set", "Bridge", "br-int", "fail_mode=secure",
            "--", "add-br", BRIDGE, "--", "set", "Bridge", BRIDGE, f'other_config:hwaddr="{MAC}"',
            "--", "add-port", BRIDGE, UPLINK, *self._captured(UPLINK, BRIDGE),
        )  # fmt: skip
        options = ("--enable-dummy=override", "--disable-system", vswitch.remote)
        self.processes.append(start(tools, folder, "vswitchd", "ovs-vswitchd", *options))
        wait_for(self.answers, "ovs-vswitchd", self.processes[-1])
        self.processes.append(
            start(tools, folder, "controller", "ovn-controller", vswitch.remote, environment=environment)
        )
        wait_for(lambda: southbound.rows("Chassis"), "ovn-controller", self.processes[-1])
        # Otherwise it keeps, for half a minute, ports that are no longer wanted.
        call(self.folder / "controller.ctl", "debug/ignore-startup-delay")

    def stop(self) -> None:
        """End Open vSwitch and ovn-controller."""
        for process in reversed(self.processes):
            stop(process)

    def forget(self) -> None:
        """Forget what was sent to interfaces."""
        for file in self.folder.glob("*.pcap"):
            self.sent(file.stem)
            self._captures[file.stem].forget()
        self._answered.clear()

    def answers(self) -> bool:
        """Whether ovs-vswitchd takes commands."""
        try:
            call(self.folder / "vswitchd.ctl", "version")
        except OSError:
            return False
        return True

    def takes_packets(self) -> bool:
        """Whether ovn-controller gets what flows send to it, which is lost before: ARP, refusals, all queries of DNS.

        It connects for that about half a second after it has written its flows.
        """
        return _PACKETS_CONNECTED.search((self.folder / "controller.log").read_text()) is not None

    def wait_for_limits(self) -> None:
        """Wait until ovn-controller has got nothing for more than a second, so that all of its limits are full again.

        Before the bridge has its flows, all routers hear each other's announcements, and use up the limit of ARP.
        """
        last = since = None

        def full() -> bool:
            nonlocal last, since
            lines = self.run(["ovs-ofctl", "-O", "OpenFlow15", "meter-stats", "br-int"])
            found = re.findall(r"packet_in_count:(\d+)", lines)
            assert found, lines
            if found != last:
                last, since = found, time.monotonic()
            return time.monotonic() > since + 1.1

        wait_for(full, "a second without a packet for ovn-controller")

    def vsctl(self, *arguments: str) -> None:
        """Change the database of Open vSwitch."""
        self.tools.run("ovs-vsctl", f"--db={self.vswitch.remote}", "--timeout=60", *arguments)

    def run(self, argv: list[str], text: str = "") -> str:
        """Run a program of Open vSwitch against this one; for commands of ovs-appctl no program is needed."""
        name, *arguments = argv
        if name == "ovs-appctl":
            try:
                return call(self.folder / "vswitchd.ctl", *(one for one in arguments if not one.startswith("--")))
            except (OSError, Refused) as error:
                raise ProgramError(name, str(error)) from error
        done = subprocess.run(
            self.tools.command(name, *arguments), input=text, capture_output=True, text=True, timeout=60, check=False
        )
        if done.returncode:
            raise ProgramError(name, done.stderr)
        return done.stdout

    def capture(self, *interfaces: str) -> None:
        """Keep what Open vSwitch sends to interfaces."""
        if interfaces:
            self.vsctl(*self._captured(*interfaces)[1:])

    def _captured(self, *interfaces: str) -> list[str]:
        options = {one: f'options:tx_pcap="{self.folder / one}.pcap"' for one in interfaces}
        return [word for one in interfaces for word in ("--", "set", "Interface", one, options[one])]

    def sent(self, interface: str) -> list[Packet | Question | Answer]:
        """What Open vSwitch has sent to an interface, without what no test looks at."""
        if interface not in self._captures:
            vlan = self.vlan if interface == UPLINK else 0
            self._captures[interface] = Capture(self.folder / f"{interface}.pcap", vlan)
        return self._captures[interface].packets()

    def receive(self, interface: str, frame: bytes, vlan: int | None = None) -> None:
        """Let a frame come in at an interface; at the uplink, by default in the provider network's VLAN."""
        vlan = (self.vlan if interface == UPLINK else 0) if vlan is None else vlan
        frame = tagged(frame, vlan) if vlan else frame
        self.receive_all(interface, [frame])

    def receive_all(self, interface: str, frames: list[bytes]) -> None:
        """Let frames come in at an interface as they are, in order."""
        # Open vSwitch drops what comes while 100 frames wait (lib/netdev-dummy.c, NETDEV_DUMMY_MAX_QUEUE).
        assert len(frames) < 100
        if not self._is_exchanging:
            self._unanswered.append((interface, frames))
        coming = [frame.hex() for frame in frames]
        call(self.folder / "vswitchd.ctl", "netdev-dummy/receive", interface, *coming)

    def follow_learned_flows(self) -> None:
        """Let the datapath decide by the flows that the packets until now have added; by itself it does so later."""
        call(self.folder / "vswitchd.ctl", "revalidator/purge")

    def attach(self, *places: tuple[str, str]) -> None:
        """Add the interfaces of workloads, each with the name of its port in OVN, and keep what is sent to them."""
        arguments = []
        for interface, port in places:
            arguments += ["--", "add-port", "br-int", interface, "--", "set", "Interface", interface,
                          f"external_ids:iface-id={port}", *self._captured(interface)]  # fmt: skip
        self.vsctl(*arguments)

    def mirror_tunnels(self) -> dict[str, str]:
        """Copy what is sent into tunnels to ports of their own; returns these ports by the other end's address.

        All types of interfaces are dummies here, so it is the packet without the header of the tunnel. Its metadata,
        such as the tunnel key, are not seen.
        """
        found = self._copies
        if found:
            return found
        for row in self.vswitch.rows("Interface", "name", "options"):
            if end := dict(row["options"][1]).get("remote_ip"):
                found[end] = f"to-{row['name']}"
                self.vsctl(
                    "--id=@tunnel", "get", "Port", row["name"], "--", "--id=@copy", "create", "Port",
                    f"name={found[end]}", "interfaces=@interface", "--", "--id=@interface", "create", "Interface",
                    f"name={found[end]}", "--", "--id=@mirror", "create", "Mirror", f"name={found[end]}",
                    "select_dst_port=@tunnel", "output_port=@copy", "--", "add", "Bridge", "br-int", "ports", "@copy",
                    "--", "add", "Bridge", "br-int", "mirrors", "@mirror",
                )  # fmt: skip
                self.capture(found[end])
        return found

    def send_as_host(self, frame: bytes, mark: int) -> None:
        """Let the host send a frame to the provider bridge with a mark, as the kernel's datapath sees it."""
        with connected(management_socket(BRIDGE), VERSION_1_4) as connection:
            _replies, errors = connection.exchange([packet_out(frame, mark)])
        assert not errors, errors

    def add_management_ports(self, plan: dict) -> None:
        """Add the host's own interfaces in its networks."""
        rows = render_management_ports(plan, "node1")
        with self.vswitch.client() as client:
            reconcile(client, "Open_vSwitch", rows, owner="t", scope=Scope(tables=frozenset(TABLES)))
        self.capture(*(row.key for row in rows if row.table == "Interface"))

    def flows(self, plan: dict) -> list:
        """The provider bridge as rendered from the plan."""
        return render_bridge_flows(plan, "node1")

    def apply(self, plan: dict, *, write: bool = True):
        """Apply the plan to the provider bridge; returns the outcome."""
        plan = host_plan(plan, "node1")
        parts = [render(plan, "node1") for render in (render_bridge_flows, render_flood_ports, render_static_macs)]
        with self.vswitch.client() as client:
            return reconcile_flows(Switch(client, self.run), [BRIDGE], *parts, write=write)

    def exchange(self, condition, what: str, holders=NEXT_HOPS) -> None:
        """Emulate the provider network until a condition holds: answer requests for `holders`, all with one MAC.

        Each second once more: ovn-controller gets a limited number of answers a second for all, and loses others. What
        came in since the last exchange comes in once more after `LOST_SECONDS`.
        """
        due, lost = time.monotonic() + 1, time.monotonic() + LOST_SECONDS

        def step() -> bool:
            nonlocal due, lost
            if time.monotonic() >= lost and self._unanswered and self._repetitions < REPETITIONS:
                lost, self._repetitions = time.monotonic() + LOST_SECONDS, self._repetitions + 1
                for interface, frames in self._unanswered:
                    self.receive_all(interface, frames)
            found = [one for one in enumerate(self.sent(UPLINK)) if isinstance(one[1], Question)]
            asked = {number: one for number, one in found if one.asked in holders}
            new = [one for number, one in asked.items() if number not in self._answered]
            self._answered.update(asked)
            if time.monotonic() >= due:
                due, new = time.monotonic() + 1, [*{one.asked: one for one in asked.values()}.values()]
            for one in new:
                self.receive(UPLINK, one.answer(NEXT_HOP_MAC))
            return condition()

        self._is_exchanging = True
        try:
            wait_for(step, what)
        finally:
            self._is_exchanging = False
        self._unanswered.clear()

    def send_until(self, condition, interface: str, frame: bytes, what: str) -> None:
        """Let a frame come in each second until a condition holds."""
        self.repeat_until(condition, lambda: self.receive(interface, frame), what)

    def repeat_until(self, condition, send, what: str) -> None:
        """Call `send` each second until a condition holds; the first frames may precede the flows of a change."""
        due = 0.0

        def step() -> bool:
            nonlocal due
            if time.monotonic() >= due:
                due = time.monotonic() + 1
                send()
            return condition()

        self.exchange(step, what)


def apply_to_host(
    machine: Host,
    northbound: Server,
    southbound: Server,
    manifests: str,
    mode: str = "shared",
    settings: dict | None = None,
    labels: dict | None = None,
    *,
    nics: bool = False,
    egress_hosts: tuple[str, ...] = (),
    **facts,
) -> Zone:
    """Start a host's Open vSwitch, apply manifests to it as node1, and wait until workloads can send."""
    machine.start(southbound)
    if facts.get("vlan"):
        machine.vlan = facts["vlan"]
        machine.vsctl("set", "Port", BRIDGE, f"tag={machine.vlan}")
    hosts = with_gateways(mode, **facts)
    hosts = with_nics(hosts) if nics else hosts
    hosts["node1"]["labels"] = labels or {}
    for name in egress_hosts:
        hosts[name]["labels"] = EGRESS_HOST
    zone = Zone(machine.tools, northbound, southbound, manifests, hosts, settings)
    machine.add_management_ports(zone.plan)
    own = [workload for workload in zone.plan["workloads"].values() if workload["node"] == "node1"]
    bound = {workload["interfaces"][-1]["port"]: interface_of(workload["namespace"], workload["name"])
             for workload in own}  # fmt: skip
    machine.attach(*((interface, port) for port, interface in bound.items()))
    machine.apply(zone.plan)
    rows = lambda: northbound.rows("Logical_Switch_Port", "name", "up")  # noqa: E731
    wait_for(lambda: bound.keys() <= {row["name"] for row in rows() if row["up"] is True}, "the workloads' ports")
    wait_for(machine.takes_packets, "ovn-controller's connection for packets")
    # Also the flows of patch ports and management ports, whose numbers ovn-controller may have learned last.
    with northbound.client() as client, southbound.client() as reader:
        synchronise(client, reader, START_TIMEOUT, chassis="chassis-of-node1")
    return zone


def find_daemons_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the programs of this test find the daemons of a host, as on a host that has them in /run."""
    monkeypatch.setenv("OVS_RUNDIR", str(folder))
    monkeypatch.setenv("OVN_RUNDIR", str(folder))
    (folder / "ovn-northd.pid").write_text("7\n")
    link = folder / "ovn-northd.7.ctl"
    if not link.is_symlink():
        link.symlink_to(folder / "northd.ctl")


@pytest.fixture
def host(tools, folder, vswitch, northbound, southbound, northd, monkeypatch):
    """A function `(manifests, mode) -> (host, zone)` that applies them to node1, for a test that changes the host."""
    find_daemons_in(folder, monkeypatch)
    machine = Host(tools, folder, vswitch)
    yield lambda *arguments, **facts: (machine, apply_to_host(machine, northbound, southbound, *arguments, **facts))
    machine.stop()


@pytest.fixture(scope="module")
def _shared(tools):
    shared = SharedHost(tools, Host, find_daemons_in, apply_to_host)
    yield shared
    shared.end()


@pytest.fixture
def shared_host(request, _shared, monkeypatch):
    """As `host`, for a test that leaves plan and host as they are; it shares the host with the tests before and after.

    Those of its file that give the same arguments. A connection must be none of a former test: `Host.ports` are unused.
    """
    failed = request.session.testsfailed
    yield lambda *arguments, **facts: _shared.take(monkeypatch, *arguments, **facts)
    if request.session.testsfailed > failed:
        _shared.end()
