# SPDX-License-Identifier: Apache-2.0
"""A virtual machine of the lab, asked through its host, and traffic to it and from it while something happens."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

from tests.lab.conftest import PATIENCE, ROOT

DATA = ROOT / "tests" / "data" / "virtual_machine"
NOTHING = ROOT / "molecule" / "manifests" / "none"
OWN_SET = ("-e", "heddle_manifest_set=virtual-machine")
MACHINE, NAME = "violet/vm1", "violet_vm1"
ADDRESSES, GATEWAYS = ("10.5.0.5", "fd00:10:5::5"), ("10.5.0.1", "fd00:10:5::1")
PORT = "7000"
# Watchers and the hosts they run on: one beside the VM, one elsewhere.
WATCHERS = {"violet_near": "node1", "violet_peer": "node3"}
# Flows to the external host: name -> where it starts (None: the VM), family, and the first of its two ports.
EXTERNAL = {
    "vm 4": (None, 4, 7100),
    "vm 6": (None, 6, 7110),
    "peer 4": ("violet_peer", 4, 7120),
    "peer 6": ("violet_peer", 6, 7130),
}


class Machine:
    """The virtual machine, asked through its host."""

    def __init__(self, lab) -> None:
        self.lab = lab

    def info(self, node: str, command: str = "") -> dict:
        return self.asked(node, command)[node]

    def inside(self, node: str, command: str) -> str:
        """Run a command in the VM, which runs on a node; returns what it printed."""
        reported = self.info(node, command)
        assert reported["rc"] == 0, reported
        return reported["stdout"]

    def asked(self, nodes: str, command: str = "") -> dict[str, dict]:
        """The results of the hosts of a pattern, by host."""
        arguments = {"workload": MACHINE, "timeout": PATIENCE, **({"command": command} if command else {})}
        done = subprocess.run(
            [str(Path(sys.executable).parent / "ansible"), nodes, "--one-line",
             "--module-name", "heddle.ovn.virtual_machine_info", "--args", json.dumps(arguments)],
            cwd=ROOT, env={**os.environ, "ANSIBLE_NOCOLOR": "1"}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        lines = [line.partition(" | SUCCESS => ") for line in done.stdout.splitlines()]
        return {host: json.loads(answer) for host, found, answer in lines if found}

    def wait_for_addresses(self, node: str) -> None:
        """Wait until it has booted and has its leases; then it answers on a TCP port."""
        deadline = time.monotonic() + PATIENCE
        while True:
            reported = self.inside(node, "ip -o address show eth0")
            if all(f"{address}/" in reported for address in ADDRESSES):
                break
            assert time.monotonic() < deadline, reported
        self.inside(node, f"pidof nc >/dev/null || nc -ll -p {PORT} -e cat >/dev/null 2>&1 &")

    def runs_on(self) -> list[str]:
        """The hosts on which QEMU has it running."""
        reported = self.asked("heddle_nodes")
        assert len(reported) == 3
        return [node for node in sorted(reported) if reported[node]["status"] == "running"]

    def move(self, node: str, *arguments: str, **options):
        variables = ("-e", f"workload={MACHINE}", "-e", f"to={node}")
        return self.lab.play("migrate_workload.yml", *variables, *arguments, **options)

    def neighbours(self, node: str) -> dict[str, tuple[str, str]]:
        """The VM's neighbour cache: address -> MAC, state."""
        reported = self.inside(node, "ip neigh; ip -6 neigh")
        return {
            found[1]: (found[2], found[3]) for found in re.finditer(r"(\S+) dev eth0 lladdr (\S+).* (\w+)", reported)
        }


def figures(run) -> dict:
    """The playbook's result of a migration."""
    return json.loads(re.search(r"msg: '?(\{\"workload\".*?\})'?\n\n", re.sub(r"\n {8}", " ", run.output))[1])


class Watchers:
    """Traffic to the VM, from several namespaces at once, until `stop`."""

    def __init__(self, lab, watchers: dict[str, str] = WATCHERS) -> None:
        program = (ROOT / "tests" / "lab" / "watch_flows.py").read_text()
        self.running = {
            namespace: _started(
                lab, host, f"ip netns exec {namespace} python3 -c {_quoted(program)} {' '.join(ADDRESSES)} {PORT}"
            )
            for namespace, host in watchers.items()
        }
        for process in self.running.values():
            assert process.stdout.readline() == "ready\n"

    def stop(self) -> dict:
        """Flow -> its figures."""
        found = {}
        for namespace, process in self.running.items():
            answer, _nothing = process.communicate("\n", timeout=PATIENCE)
            found |= {f"{namespace} {name}": flow for name, flow in json.loads(answer).items()}
        return found


class ExternalFlows:
    """New and lasting connections to the external host, from the VM and from a peer that stays, until `stop`."""

    def __init__(self, vm: Machine, node: str, addresses: dict[int, str]) -> None:
        """`node` has the VM now; `addresses` are those of the external host, by family."""
        lab = vm.lab
        flows = (ROOT / "tests" / "lab" / "external_flows.py").read_text()
        ports = " ".join(f"{name.replace(' ', '_')}={port}" for name, (_from, _family, port) in EXTERNAL.items())
        self.server = _started(lab, "external", f"python3 -c {_quoted(flows)} {ports}")
        assert self.server.stdout.readline() == "ready\n"
        knocking = (ROOT / "tests" / "lab" / "external_client.py").read_text()
        self.clients, inside = [], "echo $$ >/tmp/knocking;"
        for namespace, family, port in EXTERNAL.values():
            address = addresses[family]
            if namespace:
                command = f"ip netns exec {namespace} python3 -c {_quoted(knocking)} {address} {port}"
                self.clients.append(_started(lab, WATCHERS[namespace], command))
            else:
                inside += (
                    f"nc {address} {port + 1} -e cat >/dev/null 2>&1 & "
                    f"while [ -e /tmp/knocking ]; do nc -w 1 {address} {port} </dev/null >/dev/null 2>&1 & sleep 0.2;"
                    " done & "
                    # Starts no process for each packet, so it measures the network also on a busy VM.
                    f"ping -i 0.1 {address} >>/tmp/echoes{family} & echo $! >>/tmp/pinging; "
                )
        vm.inside(node, f"({inside}) >/dev/null 2>&1 </dev/null &")
        self.vm, self.echoes, self.answered = vm, [], {4: 0, 6: 0}

    def phase(self, node: str) -> None:
        """End a phase; `node` has the VM now."""
        reported = self.vm.inside(
            node, "for family in 4 6; do echo /; cat /tmp/echoes$family; : >/tmp/echoes$family; done; echo /"
        )
        found = {}
        for family, part in zip((4, 6), reported.split("/\n")[1:], strict=False):
            answered = [int(number) for number in re.findall(r"seq=(\d+)", part)]
            steps = [later - earlier for earlier, later in pairwise([self.answered[family], *answered])]
            found[family] = {"answered": len(answered), "longest_gap_ms": max(steps, default=0) * 100}
            self.answered[family] = answered[-1] if answered else self.answered[family]
        self.echoes.append(found)
        self.server.stdin.write("\n")
        self.server.stdin.flush()

    def stop(self, node: str) -> list[dict]:
        """The figures of the flows, phase by phase; `node` has the VM now."""
        self.phase(node)
        answer, _nothing = self.server.communicate(timeout=PATIENCE)
        self.vm.inside(node, "rm -f /tmp/knocking; kill $(cat /tmp/pinging); rm /tmp/pinging")
        for client in self.clients:
            client.communicate(timeout=PATIENCE)
        return [
            {**flows, **{f"vm_{family}": {**flows[f"vm_{family}"], "echo": reported[family]} for family in reported}}
            for flows, reported in zip(json.loads(answer), self.echoes, strict=True)
        ]


def _started(lab, host: str, command: str) -> subprocess.Popen:
    return subprocess.Popen(
        ["ssh", "-F", str(lab.directory / "ssh_config"), host, command],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def _quoted(program: str) -> str:
    return "'" + program.replace("'", "'\"'\"'") + "'"
