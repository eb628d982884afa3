# SPDX-License-Identifier: Apache-2.0
"""A virtual machine boots, is reached, and moves to other hosts with its connections, whatever is cut off meanwhile."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.lab.conftest import ROOT

DATA = ROOT / "tests" / "data" / "virtual_machine"
NOTHING = ROOT / "molecule" / "manifests" / "none"
OWN_SET = ("-e", "heddle_manifest_set=virtual-machine")
MACHINE, UNIT = "violet/vm1", "heddle-vm@violet_vm1"
ADDRESSES, GATEWAYS = ("10.5.0.5", "fd00:10:5::5"), ("10.5.0.1", "fd00:10:5::1")
GATEWAY_LINK_LOCAL = "fe80::858:aff:fe05:1"
PORT = "7000"
# Watchers and the hosts they run on: one beside the machine, one elsewhere.
WATCHERS = {"violet_near": "node1", "violet_peer": "node3"}


class Machine:
    """The virtual machine, asked through its host."""

    def __init__(self, lab) -> None:
        self.lab = lab

    def info(self, node: str, command: str = "") -> dict:
        return self.asked(node, command)[node]

    def asked(self, nodes: str, command: str = "") -> dict[str, dict]:
        """What the hosts of a pattern say, by host."""
        arguments = {"workload": MACHINE, "timeout": 60, **({"command": command} if command else {})}
        done = subprocess.run(
            [str(Path(sys.executable).parent / "ansible"), nodes, "--one-line",
             "--module-name", "heddle.ovn.virtual_machine_info", "--args", json.dumps(arguments)],
            cwd=ROOT, env={**os.environ, "ANSIBLE_NOCOLOR": "1"}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        lines = [line.partition(" | SUCCESS => ") for line in done.stdout.splitlines()]
        return {host: json.loads(answer) for host, found, answer in lines if found}

    def identity(self, node: str) -> dict:
        """What must be the same wherever the machine runs, as it sees it itself."""
        told = self.info(
            node,
            "".join(f"ping -c 1 -W 5 {gateway} >/dev/null; " for gateway in GATEWAYS)
            + "ip -o address show eth0; echo /; ip route show default; ip -6 route show default; echo /;"
            + "ip neigh; ip -6 neigh; cat /sys/class/net/eth0/address",
        )["stdout"]
        addresses, routes, neighbours = told.split("/\n")
        return {
            "addresses": set(re.findall(r"inet6? (\S+)", addresses)),
            "gateways": set(re.findall(r"default via (\S+)", routes)),
            "gateway MACs": {
                (address, mac)
                for address, mac in re.findall(r"(\S+) dev eth0 lladdr (\S+)", neighbours)
                if address in (*GATEWAYS, GATEWAY_LINK_LOCAL)
            },
            "MAC": neighbours.split()[-1],
        }

    def runs_on(self) -> list[str]:
        """The hosts on which QEMU has it running."""
        told = self.asked("heddle_nodes")
        assert len(told) == 3
        return [node for node in sorted(told) if told[node]["status"] == "running"]

    def move(self, node: str, **options):
        return self.lab.play("migrate_workload.yml", "-e", f"workload={MACHINE}", "-e", f"to={node}", **options)


@pytest.fixture(scope="module")
def machine(lab):
    """A machine on node1 that has its addresses and answers on a TCP port; removed afterwards."""
    before = lab.dump()
    lab.play("networks.yml", *OWN_SET, manifests=DATA / "manifests")
    found = Machine(lab)
    deadline = time.monotonic() + 90
    while True:
        told = "\n".join(found.info("node1")["inside"]["addresses"])
        if all(f"{address}/" in told for address in ADDRESSES):
            break
        assert time.monotonic() < deadline, told
    found.info("node1", f"nc -ll -p {PORT} -e cat >/dev/null 2>&1 &")
    yield found
    lab.play("networks.yml", *OWN_SET, manifests=NOTHING)
    assert lab.dump() == before


class Watchers:
    """Traffic to the machine, from several namespaces at once, until `stop`."""

    def __init__(self, lab) -> None:
        program = (ROOT / "tests" / "lab" / "watch_flows.py").read_text()
        self.running = {}
        for namespace, host in WATCHERS.items():
            self.running[namespace] = subprocess.Popen(
                ["ssh", "-F", str(lab.directory / "ssh_config"), host,
                 f"ip netns exec {namespace} python3 -c '{_quoted(program)}' {' '.join(ADDRESSES)} {PORT}"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
        for process in self.running.values():
            assert process.stdout.readline() == "ready\n"

    def stop(self) -> dict:
        """Flow -> what became of it."""
        found = {}
        for namespace, process in self.running.items():
            answer, _nothing = process.communicate("\n", timeout=30)
            found |= {f"{namespace} {name}": flow for name, flow in json.loads(answer).items()}
        return found


def _quoted(program: str) -> str:
    return program.replace("'", "'\"'\"'")


def test_it_is_reached_and_reaches_in_both_families(lab, machine):
    for namespace, host in WATCHERS.items():
        for address in ADDRESSES:
            lab.ssh(host, "ip", "netns", "exec", namespace, "ping", "-c1", "-W5", address)
    identity = machine.identity("node1")
    assert identity["gateways"] == {"10.5.0.1", GATEWAY_LINK_LOCAL}
    assert {"10.5.0.5/24", "fd00:10:5::5/128", "fe80::858:aff:fe05:5/64"} == identity["addresses"]
    assert ("10.5.0.1", "0a:58:0a:05:00:01") in identity["gateway MACs"]
    assert (GATEWAY_LINK_LOCAL, "0a:58:0a:05:00:01") in identity["gateway MACs"]


def test_it_moves_with_its_connections_and_stays_who_it_is(lab, machine, capsys):
    before = machine.identity("node1")
    watchers = Watchers(lab)
    moved = machine.move("node2")
    flows = watchers.stop()
    figures = json.loads(re.search(r"msg: '?(\{\"workload\".*?\})", moved.output.replace("\n        ", " "))[1])
    with capsys.disabled():
        print(f"\n{json.dumps({'move': figures, 'flows': flows}, indent=1)}")
    streams = {name: flow for name, flow in flows.items() if " tcp " in name}
    assert len(streams) == 4
    assert all((flow["lost"], flow["resets"]) == (0, 0) for flow in streams.values()), flows
    assert all(flow["lost"] < flow["sent"] for flow in flows.values()), flows
    assert machine.identity("node2") == before
    assert machine.runs_on() == ["node2"]
    assert "violet_vm1" not in lab.ssh("node1", "ls", "/run/heddle-vm")

    again = machine.move("node2")
    assert set(again.changed.values()) == {0}, again.output[-4000:]
    applied = lab.play("networks.yml", *OWN_SET, manifests=DATA / "manifests")
    assert set(applied.changed.values()) == {0}, applied.output[-4000:]
    assert machine.runs_on() == ["node2"]


def test_a_move_that_fails_before_the_switch_over_leaves_it_where_it_was(lab, machine):
    (here,) = machine.runs_on()
    lab.ssh("node3", "systemctl", "mask", "--runtime", UNIT)
    try:
        failed = machine.move("node3", success=False)
    finally:
        lab.ssh("node3", "systemctl", "unmask", "--runtime", UNIT)
    assert failed.code != 0
    assert machine.runs_on() == [here]
    applied = lab.play("networks.yml", *OWN_SET, manifests=DATA / "manifests")
    assert not applied.unreachable
    assert machine.runs_on() == [here]


def test_a_move_that_is_cut_off_after_the_switch_over_is_finished_by_the_next_run(lab, machine):
    (here,) = machine.runs_on()
    there = "node1" if here != "node1" else "node2"
    playbook = subprocess.Popen(
        [str(ROOT / "scripts" / "play"), "playbooks/migrate_workload.yml", "-e", f"workload={MACHINE}", "-e",
         f"to={there}"],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        env={**os.environ, "ANSIBLE_NOCOLOR": "1"},
    )  # fmt: skip
    for line in playbook.stdout:
        if "Look where it runs]" in line:
            break
    os.killpg(playbook.pid, 9)
    playbook.wait()
    assert machine.runs_on() == [there]
    assert lab.ssh("node1", "ls", "/run/heddle-vm").split() == ["violet_vm1"]

    # Nobody else ends a move: not with the same manifests, and not with others.
    lab.play("networks.yml", *OWN_SET, manifests=DATA / "manifests")
    assert machine.runs_on() == [there]
    machine.move(there)
    assert machine.runs_on() == [there]
    other = lab.ssh(here, "ls", "/run/heddle-vm")
    assert "violet_vm1" not in other
    for namespace, host in WATCHERS.items():
        for address in ADDRESSES:
            lab.ssh(host, "ip", "netns", "exec", namespace, "ping", "-c2", "-W5", address)
