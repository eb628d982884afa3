# SPDX-License-Identifier: Apache-2.0
"""A mesh that is encrypted on hosts without ESP: the fallback carries everything, and nothing in clear is accepted."""

from __future__ import annotations

import re
import socket
import time

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.naming import MESH_BRIDGE
from ansible_collections.heddle.ovn.plugins.module_utils.netlink import kernel
from tests.live.conftest import wait_for
from tests.live.mesh.conftest import REPEAT_SECONDS
from tests.live.mesh.test_mesh import exchange, hosts, packet
from tests.pipeline import namespace, plan_of, workload

PAYLOAD = b"what no other host may read"


def plan(encryption: str, version: int = 4) -> dict:
    described = hosts(version)
    del described["node3"]
    network = (
        "---\napiVersion: heddle.dev/v1\nkind: MeshNetwork\nmetadata: {name: net, namespace: red}\n"
        f'spec: {{role: Secondary, subnets: [10.9.0.0/24, "fd00:9::/64"], encryption: {encryption}}}\n'
    )
    ends = workload("red", "a1", "node1", "net") + workload("red", "a2", "node2", "net")
    return plan_of(namespace("red", primary=False) + network + ends, hosts=described)


def capture(fleet, send) -> list[bytes]:
    """The frames on the underlay from now on until `send` returns."""
    with kernel.in_netns(fleet.underlay):
        opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    with opened:
        opened.bind(("u-node1", 0))
        opened.setblocking(False)
        send()
        found = []
        while True:
            try:
                found.append(opened.recv(65535))
            except BlockingIOError:
                return found


def state(fleet) -> tuple[str | None, bool | None]:
    one = fleet.hosts["node1"].connection("node2")
    return one.get("overlay"), one.get("encrypted")


def wait_state(fleet, *wanted) -> None:
    def reached() -> bool:
        both = [fleet.hosts[one].connection(other) for one, other in (("node1", "node2"), ("node2", "node1"))]
        return all((one.get("overlay"), one.get("encrypted")) == wanted for one in both)

    wait_for(reached, f"the connection {wanted}")
    fleet.wait_established()


def without_a_flow(host) -> int:
    """How many packets the bridge has dropped as no flow matches them."""
    switch = f"unix:{host.folder}/{MESH_BRIDGE}.mgmt"
    text = host.tools.run("ovs-ofctl", "-O", "OpenFlow13", "dump-tables", switch)
    found = re.search(r"lookup=(\d+), matched=(\d+)", text)
    return int(found[1]) - int(found[2])


@pytest.mark.parametrize("version", [4, 6])
def test_frames_are_sealed_on_the_wire(fleet, version):
    fleet.start(plan("esp", version))
    wait_state(fleet, "sleeve", True)
    wait_for(lambda: "no ESP" in fleet.hosts["node1"].connection("node2").get("why", ""), "the reason")
    exchange(fleet, "red/a1", "red/a2")
    secret = packet(fleet, "red/a1", "red/a2", payload=PAYLOAD)

    def send() -> None:
        due = 0.0

        def arrived() -> bool:
            nonlocal due
            if time.monotonic() >= due:
                due = time.monotonic() + REPEAT_SECONDS
                fleet.wire("red/a1").send(secret.encode())
            return any(PAYLOAD in frame for frame in fleet.receive_all(0).get("red/a2", ()))

        wait_for(arrived, "the packet")

    frames = capture(fleet, send)
    assert frames
    assert not [frame for frame in frames if PAYLOAD in frame]


def test_encryption_of_a_mesh_that_runs_and_its_end(fleet):
    fleet.start(plan("none"))
    wait_state(fleet, "fastdp", False)
    fleet.apply(plan("esp"))
    wait_state(fleet, "sleeve", True)
    exchange(fleet, "red/a1", "red/a2")
    # The tunnel's port stays; what comes through it without ESP is dropped before the daemon.
    fleet.receive_all()
    with kernel.in_netns(fleet.hosts["node2"].netns):
        sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    frame = packet(fleet, "red/a2", "red/a1", payload=PAYLOAD).encode()
    with sender:
        sender.bind(("198.51.100.2", 0))
        header = bytes.fromhex("08000000") + (5 << 12 | 6).to_bytes(3, "big") + b"\0"
        tagged = frame[:12] + bytes.fromhex("8100 0001") + frame[12:]

        def dropped() -> bool:
            """Whether the bridge has got such packets and had no flow for them."""
            sender.sendto(header + tagged, ("198.51.100.1", 6784))
            return without_a_flow(fleet.hosts["node1"]) >= before + 3

        before = without_a_flow(fleet.hosts["node1"])
        wait_for(dropped, "what the bridge has dropped")
    assert fleet.receive_all() == {}
    fleet.apply(plan("none"))
    wait_state(fleet, "fastdp", False)
    exchange(fleet, "red/a1", "red/a2")
