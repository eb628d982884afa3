# SPDX-License-Identifier: Apache-2.0
"""Moves of addresses, as an external host sees them (`address_watch.py`)."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import yaml

from tests.lab.conftest import NODES, Lab
from tests.lab.remote_program import RemoteProgram

# A new connection to each address every 200 ms, until it is ended; one that gets no answer is given up after a second.
# Each is a packet that ovs-vswitchd handles: many more keep a guest from applying the plan.
CONNECT = """
import socket, sys, time
port, targets, opened = int(sys.argv[1]), sys.argv[2:], []
while True:
    for target in targets:
        one = socket.socket(socket.AF_INET6 if ":" in target else socket.AF_INET, socket.SOCK_STREAM)
        one.setblocking(False)
        try:
            one.connect_ex((target, port))
        except OSError:
            pass
        opened.append((one, time.monotonic()))
    while opened and time.monotonic() - opened[0][1] > 1:
        opened.pop(0)[0].close()
    time.sleep(0.2)
"""


def assignable(path: Path, *names: str) -> tuple[str, ...]:
    """The arguments of a playbook in which only these hosts may hold egress addresses; a file of that is in `path`."""
    labels = {name: {"k8s.ovn.org/egress-assignable": ""} if name in names else {} for name in NODES}
    hosts = {name: {"heddle_node_labels": found} for name, found in labels.items()}
    inventory = path / f"{'-'.join(names)}.yml"
    inventory.write_text(yaml.safe_dump({"all": {"hosts": hosts}}))
    return "-i", "inventories/lab", "-i", str(inventory)


def begin_connecting(lab: Lab, node: str, namespace: str, unit: str, port: int, *targets: str) -> None:
    """Let a network namespace of a host connect to external addresses, until the unit is stopped."""
    path = f"--property=NetworkNamespacePath=/run/netns/{namespace}"
    program = ["python3", "-c", shlex.quote(CONNECT), str(port), *targets]
    lab.ssh(node, "systemd-run", "--quiet", f"--unit={unit}", path, *program)


def macs(plan: dict) -> dict[str, str]:
    """The MACs of hosts on the provider network."""
    return {name: node["gateway"]["mac"] for name, node in plan["nodes"].items()}


def expect_move(
    watch: RemoteProgram,
    known: dict[str, str],
    hosts: dict[str, tuple[str, ...]],
) -> None:
    """End the watch: each address was at its former host, then at the new one, where connections work.

    `known` has the MAC of each host, `hosts` those of each address.
    """
    watch.go_on()
    found = watch.line()
    # Without an assertion on time, which depends on the machine.
    print(json.dumps(found))
    assert found["others"] == []
    for address, seen in found["addresses"].items():
        expected = [known[node] for node in hosts[address]]
        for kind in ("hosts", "senders", "frames"):
            assert [mac for mac, _when in seen[kind]] in (expected, [] if kind == "senders" else expected), (
                address,
                kind,
            )
        # A new host sends packets of workloads when it has said that it has the address.
        for (mac, sent), (_mac, answered) in zip(seen["senders"], seen["hosts"], strict=False):
            assert sent >= answered or mac != expected[-1] or len(expected) == 1, address
        for port, one in seen["ports"].items():
            assert one["accepted"], f"{address} {port}: no connection after the move"
