# SPDX-License-Identifier: Apache-2.0
"""Who reaches a workload over the default network although that is locked for it: packets of real processes.

The host and a workload are two network namespaces; the table is the one that is rendered for the host.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.agent.host_firewall import apply_firewall
from ansible_collections.heddle.ovn.plugins.module_utils.common.errors import ProgramError
from ansible_collections.heddle.ovn.plugins.module_utils.netlink import kernel
from tests.live.conftest import wait_for
from tests.live.nftables.conftest import CGROUPS
from tests.pipeline import layer2, namespace, plan_of, with_gateways, workload

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")

PORT, SOURCE_PORT = 4000, 4001
FIN_WAIT_2, LAST_ACK = "05", "09"
MACS = {"far": "0a:58:0a:f4:00:02", "near": "0a:58:0a:f4:00:03"}
# Runs lines of Python and answers each with one line: the value, or the name of the error.
INTERPRETER = """
import socket, sys
socket.setdefaulttimeout(60)
names = {"socket": socket}
for line in sys.stdin:
    try:
        try:
            print(eval(line, names))
        except SyntaxError:
            exec(line, names)
            print("done")
    except OSError as error:
        print(type(error).__name__)
"""
MANIFESTS = namespace("red") + layer2("red", "net", "10.50.0.0/16") + workload("red", "a", "node1")


class Process:
    """A process in a network namespace that does what it is asked for."""

    def __init__(self, name: str) -> None:
        with kernel.in_netns(name):
            self.process = subprocess.Popen(
                [sys.executable, "-u", "-c", INTERPRETER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )

    def do(self, line: str) -> str:
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def move(self, folder) -> None:
        (folder / "cgroup.procs").write_text(str(self.process.pid))


class Scene:
    """A host whose table is loaded, and a workload that has a primary network of its own."""

    def __init__(self, namespace, run_nft, cgroup, family: int) -> None:
        self.host, self.workload, self.run, self.cgroup = (
            namespace(f"iso{os.getpid()}-host"), namespace(f"iso{os.getpid()}-red"), run_nft, cgroup
        )  # fmt: skip
        prober = str(cgroup.relative_to(CGROUPS))
        self.plan = plan_of(MANIFESTS, hosts=with_gateways("shared", prober=prober))
        interface = self.plan["workloads"]["red/a"]["interfaces"][0]
        assert interface["role"] == "infrastructure-locked"
        address = next(item for item in interface["addresses"] if (":" in item) == (family == 6))
        self.target = address.partition("/")[0]
        self.own = f"{self.target.rpartition(':' if family == 6 else '.')[0]}{':' if family == 6 else '.'}2"
        self.kind = "socket.AF_INET6" if family == 6 else "socket.AF_INET"
        self.processes: list[Process] = []
        self._connect(f"{self.own}/{address.partition('/')[2]}", address)

    def _connect(self, own: str, address: str) -> None:
        for name, text, far in ((self.host, own, "far"), (self.workload, address, "near")):
            with kernel.in_netns(name):
                if far == "far":
                    ip("link", "add", "far", "type", "veth", "peer", "name", "near", "netns", self.workload)
                ip("link", "set", far, "address", MACS[far], "up")
                ip("address", "add", text, "dev", far, *(["nodad"] if ":" in text else []))
        # OVN answers for both; the table lets no neighbour advertisement of the host pass.
        for name, device, far, address in (
            (self.host, "far", "near", self.target),
            (self.workload, "near", "far", self.own),
        ):
            with kernel.in_netns(name):
                ip("neigh", "replace", address, "dev", device, "lladdr", MACS[far], "nud", "permanent")

    def load(self):
        with kernel.in_netns(self.host):
            return apply_firewall(self.plan, "node1", write=True, run=self.run, cgroups=CGROUPS)

    def process(self, name: str, folder=None) -> Process:
        made = Process(name)
        self.processes.append(made)
        if folder:
            made.move(folder)
        return made

    def udp(self, process: Process, address: str, port: int) -> None:
        for line in (
            f"s = socket.socket({self.kind}, socket.SOCK_DGRAM)",
            "s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)",
            f"s.bind(({address!r}, {port}))",
        ):
            assert process.do(line) in ("done", "None")

    def send(self, process: Process, text: str) -> str:
        """Return how many bytes were sent, or PermissionError: nftables dropped them."""
        return process.do(f"s.sendto(b{text!r}, ({self.target!r}, {PORT}))")

    def states(self, process: Process) -> list[str]:
        """Return the states of the TCP sockets in a process's namespace, as in include/net/tcp_states.h."""
        name = "tcp6" if ":" in self.target else "tcp"
        with open(f"/proc/{process.process.pid}/net/{name}", encoding="ascii") as text:
            return [line.split()[3] for line in list(text)[1:]]

    def close(self) -> None:
        for one in self.processes:
            one.process.stdin.close()
            one.process.wait()
            one.process.stdout.close()


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture(params=[4, 6])
def scene(request, run_nft, cgroup, namespace):
    made = Scene(namespace, run_nft, cgroup, request.param)
    try:
        made.load()
    except ProgramError as error:
        pytest.skip(f"this kernel has no nf_tables: {error}")
    yield made
    made.close()


def test_the_prober_reaches_a_locked_workload_and_other_processes_do_not(scene):
    server = scene.process(scene.workload)
    prober, other = scene.process(scene.host, scene.cgroup), scene.process(scene.host)
    scene.udp(server, scene.target, PORT)
    for process in (prober, other):
        scene.udp(process, scene.own, 0)
    assert scene.send(prober, "probe") == "5"
    assert server.do("s.recv(99)") == "b'probe'"
    assert scene.send(other, "other") == "PermissionError"


def test_no_other_process_gets_into_a_connection_of_the_prober(scene):
    """It has the same addresses and ports, and connection tracking calls the connection established."""
    server = scene.process(scene.workload)
    prober, other = scene.process(scene.host, scene.cgroup), scene.process(scene.host)
    scene.udp(server, scene.target, PORT)
    scene.udp(prober, scene.own, SOURCE_PORT)
    assert scene.send(prober, "probe") == "5"
    assert server.do("s.sendto(*s.recvfrom(99))") == "5"
    assert prober.do("s.recv(99)") == "b'probe'"
    scene.udp(other, scene.own, SOURCE_PORT)
    assert scene.send(other, "other") == "PermissionError"
    assert scene.send(prober, "again") == "5"
    assert server.do("s.recv(99)") == "b'again'"


def test_the_host_answers_what_a_locked_workload_asked(scene):
    host, asking = scene.process(scene.host), scene.process(scene.workload)
    scene.udp(host, scene.own, PORT)
    scene.udp(asking, scene.target, SOURCE_PORT)
    assert asking.do(f"s.sendto(b'question', ({scene.own!r}, {PORT}))") == "8"
    assert host.do("s.sendto(*s.recvfrom(99))") == "8"
    assert asking.do("s.recv(99)") == "b'question'"


def test_a_prober_that_was_started_again_is_let_through_and_what_it_left_is_not(scene):
    server, old = scene.process(scene.workload), scene.process(scene.host, scene.cgroup)
    scene.udp(server, scene.target, PORT)
    scene.udp(old, scene.own, SOURCE_PORT)
    assert scene.send(old, "probe") == "5"
    assert server.do("s.sendto(*s.recvfrom(99))") == "5"
    # A socket keeps the cgroup in which it was made.
    old.move(CGROUPS)
    scene.cgroup.rmdir()
    scene.cgroup.mkdir()
    assert scene.load().changed
    new = scene.process(scene.host, scene.cgroup)
    scene.udp(new, scene.own, 0)
    assert scene.send(new, "again") == "5"
    assert scene.send(old, "other") == "PermissionError"
    assert not scene.load().changed


def test_without_the_prober_s_cgroup_the_workload_is_locked_for_all(scene):
    scene.cgroup.rmdir()
    (note,) = scene.load().notes
    assert "does not exist" in note
    assert str(scene.cgroup.relative_to(CGROUPS)) in note
    other = scene.process(scene.host)
    scene.udp(other, scene.own, 0)
    assert scene.send(other, "other") == "PermissionError"
    scene.cgroup.mkdir()
    outcome = scene.load()
    assert (outcome.changed, outcome.notes) == (True, ())
    prober = scene.process(scene.host, scene.cgroup)
    scene.udp(prober, scene.own, 0)
    assert scene.send(prober, "probe") == "5"


def test_a_connection_that_the_prober_closes_first_ends_at_the_workload(scene):
    """The last acknowledgement comes from the kernel, when the prober's socket is gone already."""
    server, prober = scene.process(scene.workload), scene.process(scene.host, scene.cgroup)
    assert server.do(f"s = socket.create_server(({scene.target!r}, {PORT}), family={scene.kind})") == "done"
    assert prober.do(f"c = socket.create_connection(({scene.target!r}, {PORT}))") == "done"
    assert server.do("c = s.accept()[0]") == "done"
    assert prober.do("c.shutdown(socket.SHUT_WR)") == "None"
    assert server.do("c.recv(99)") == "b''"
    # Acknowledged, so that the kernel needs no socket any more when the process has closed it.
    wait_for(lambda: FIN_WAIT_2 in scene.states(prober), "the acknowledgement of the prober's end")
    assert prober.do("c.close()") == "None"
    assert server.do("c.close()") == "None"
    wait_for(lambda: LAST_ACK not in scene.states(server), "the end of the connection")


def test_a_cgroup_that_goes_while_the_table_is_loaded_is_no_error(scene):
    def removing(argv, text=""):
        if "socket cgroupv2" in text and scene.cgroup.exists():
            scene.cgroup.rmdir()
        return scene.run(argv, text)

    with kernel.in_netns(scene.host):
        outcome = apply_firewall(scene.plan, "node1", write=True, run=removing, cgroups=CGROUPS)
    assert len(outcome.notes) == 1
