# SPDX-License-Identifier: Apache-2.0
"""Probes between two hosts, each a network namespace, with a bridge between them as the underlay."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
STEP = """
import json, sys
from ansible_collections.heddle.ovn.plugins.module_utils.underlay_daemon.control import measure
from ansible_collections.heddle.ovn.plugins.module_utils.underlay_daemon.prober import Task
node, state, directory, peers = sys.argv[1:]
task = Task(node, b"t" * 16, json.loads(peers), "underlay", 1500)
print(json.dumps(measure(state, task, directory)))
"""
PEERS = {"a": ["198.18.1.1", "fd00:6864:1::1"], "b": ["198.18.1.2", "fd00:6864:1::2"]}

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root makes network namespaces")


def run(*command: str, text: str | None = None) -> str:
    return subprocess.run(command, input=text, check=True, capture_output=True, text=True, timeout=120).stdout


class Hosts:
    """Two hosts in namespaces `a` and `b`, and the bridge in a third one."""

    def __init__(self, folder: Path, names: dict[str, str]) -> None:
        self.folder, self.names = folder, names

    def inside(self, host: str, *command: str, text: str | None = None) -> str:
        return run("ip", "netns", "exec", self.names[host], *command, text=text)

    def step(self, state: str) -> dict[str, dict]:
        """Do one step on both hosts at a time; return the results."""
        running = {
            host: subprocess.Popen(
                ["ip", "netns", "exec", self.names[host], sys.executable, "-c", STEP, host, state,
                 str(self.folder / host), json.dumps(PEERS)],
                cwd=ROOT / "collections", stdout=subprocess.PIPE, text=True,
            )
            for host in PEERS
        }  # fmt: skip
        return {host: json.loads(process.communicate(timeout=300)[0]) for host, process in running.items()}

    def measure(self) -> tuple[dict, dict, dict]:
        """Return the problems, what arrived with an acknowledgement, and all that arrived."""
        found = tuple(self.step(state) for state in ("started", "measured", "finished"))
        left = [entry.name for host in PEERS for entry in (self.folder / host).iterdir()]
        assert not left, "files of the process are left"
        return found


@pytest.fixture
def hosts(tmp_path):
    names = {name: f"hdlp{os.getpid() % 10000}{name}" for name in (*PEERS, "bridge")}
    try:
        for name in names.values():
            run("ip", "netns", "add", name)
        run("ip", "-n", names["bridge"], "link", "add", "br0", "type", "bridge")
        for host, addresses in PEERS.items():
            pair = ["type", "veth", "peer", "name", f"to-{host}", "netns", names["bridge"]]
            run("ip", "link", "add", "underlay", "netns", names[host], *pair)
            for address in addresses:
                nodad = ["nodad"] if ":" in address else []
                run("ip", "-n", names[host], "address", "add", f"{address}/{64 if nodad else 24}", "dev", "underlay",
                    *nodad)  # fmt: skip
            run("ip", "-n", names[host], "link", "set", "underlay", "up")
            run("ip", "-n", names["bridge"], "link", "set", f"to-{host}", "master", "br0", "up")
        run("ip", "-n", names["bridge"], "link", "set", "br0", "up")
        yield Hosts(tmp_path, names)
    finally:
        for name in names.values():
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def test_a_clean_underlay_carries_its_mtu(hosts):
    every = {"geneve": 1500, "vxlan": 1500}
    assert hosts.measure() == (
        {"a": {}, "b": {}},
        {"a": {"b": every}, "b": {"a": every}},
        {"a": {"b": every}, "b": {"a": every}},
    )


def test_a_black_hole_is_measured_to_the_byte(hosts):
    """A bridge drops what is longer than the MTU of the port, without an error; a veth pair receives 4 bytes more."""
    run("ip", "-n", hosts.names["bridge"], "link", "set", "to-b", "mtu", "1433")
    _problems, sent, received = hosts.measure()
    assert sent == {"a": {"b": {"geneve": 1433, "vxlan": 1433}}, "b": {"a": {"geneve": 1437, "vxlan": 1437}}}
    assert received == {"b": {"a": sent["a"]["b"]}, "a": {"b": sent["b"]["a"]}}


def test_a_port_that_is_closed_in_one_direction(hosts, tools):
    """VXLAN brings the acknowledgements back, so that the open direction of Geneve is known to be open."""
    table = "table inet t { chain i { type filter hook input priority 0; udp dport 6081 drop; }; }"
    hosts.inside("b", *tools.command("nft", "-f", "-"), text=table)
    _problems, sent, received = hosts.measure()
    assert sent == {"a": {"b": {"geneve": 0, "vxlan": 1500}}, "b": {"a": {"geneve": 1500, "vxlan": 1500}}}
    assert received["b"] == {"a": {"vxlan": 1500}}
    table = "table inet t { chain i { udp dport 4789 drop; }; }"
    hosts.inside("b", *tools.command("nft", "-f", "-"), text=table)
    _problems, sent, received = hosts.measure()
    # No acknowledgement comes back, but what arrives is recorded.
    assert sent == {"a": {"b": {"geneve": 0, "vxlan": 0}}, "b": {"a": {"geneve": 0, "vxlan": 0}}}
    assert received == {"a": {"b": {"geneve": 1500, "vxlan": 1500}}, "b": {}}


def test_a_port_that_another_program_has(hosts):
    program = "import socket, sys; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('198.18.1.2', 4789))"
    command = ["ip", "netns", "exec", hosts.names["b"], sys.executable, "-c", f"{program}; print(flush=True); input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        other.stdout.readline()
        problems, sent, _received = hosts.measure()
        other.communicate("\n")
    assert problems == {"a": {}, "b": {"vxlan": "another program has UDP port 4789"}}
    assert sent["a"] == {"b": {"geneve": 1500, "vxlan": 0}}
    assert sent["b"] == {"a": {"geneve": 1500, "vxlan": 1500}}


@pytest.mark.parametrize(("kind", "port"), [("vxlan", 4789), ("geneve", 6081)])
def test_what_comes_out_of_a_tunnel_device_counts(hosts, kind, port):
    """As beside Open vSwitch, whose kernel datapath has such devices and the UDP ports."""
    device = {"vxlan": f"vxlan_sys_{port}", "geneve": f"genev_sys_{port}"}[kind]
    for host in PEERS:
        try:
            hosts.inside(host, "ip", "link", "add", device, "type", kind, "external", "dstport", str(port))
        except subprocess.CalledProcessError:
            pytest.skip(f"this kernel has no {kind}")
        hosts.inside(host, "ip", "link", "set", device, "up")
    problems, sent, _received = hosts.measure()
    assert problems == {"a": {}, "b": {}}
    assert sent == {"a": {"b": {"geneve": 1500, "vxlan": 1500}}, "b": {"a": {"geneve": 1500, "vxlan": 1500}}}


def test_other_measurements_and_anything_else_are_ignored(hosts):
    hosts.step("started")
    script = "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n" + "".join(
        f"s.sendto(bytes({size}), ('198.18.1.2', {port}))\n" for port in (6081, 4789) for size in (0, 7, 100, 1400)
    )
    hosts.inside("a", sys.executable, "-c", script)
    assert hosts.step("finished") == {"a": {}, "b": {}}
