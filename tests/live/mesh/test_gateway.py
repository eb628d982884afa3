# SPDX-License-Identifier: Apache-2.0
"""The gateway of a primary network: each host's own answers its workloads, and no other one does."""

from __future__ import annotations

import socket

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.netlink import kernel
from tests.live.conftest import wait_for
from tests.live.mesh.conftest import ip
from tests.live.mesh.test_mesh import BROADCAST, exchange, hosts
from tests.pipeline import namespace, plan_of, with_gateways, workload

PRIMARY = (
    namespace("red")
    + "---\napiVersion: heddle.dev/v1\nkind: MeshNetwork\nmetadata: {name: net, namespace: red}\n"
    + "spec: {role: Primary, subnets: [10.9.0.0/24]}\n"
    + "".join(workload("red", f"a{number}", f"node{number}") for number in (1, 2, 3))
)
ADDRESS, MAC = bytes([10, 9, 0, 1]), bytes.fromhex("0a580a090001")


def arp(operation: int, source: tuple[bytes, bytes], target: tuple[bytes, bytes], to: bytes) -> bytes:
    """A frame of ARP (RFC 826) with MAC and IPv4 address of both ends."""
    head = bytes.fromhex("0001 0800 06 04") + operation.to_bytes(2, "big")
    return to + source[0] + b"\x08\x06" + head + b"".join(source) + b"".join(target)


def own(fleet, name: str) -> tuple[bytes, bytes]:
    return fleet.mac(name), bytes(map(int, fleet.wire(name).addresses[0].split(".")))


@pytest.fixture
def primary(fleet):
    """A fleet whose hosts have set the address of their gateways."""
    fleet.start(plan_of(PRIMARY, hosts=with_gateways("shared", hosts(4))))
    port = f"ovn-k8s-mp{fleet.plan['networks']['red_net']['id']}"
    for host in fleet.hosts.values():
        wait_for(lambda host=host: port in host.ip("link"), port, host.process)
        # Open vSwitch in user space and the kernel both see what workloads send; only the gateway's port is to answer.
        ip("netns", "exec", host.netns, "sysctl", "-qw", "net.ipv4.conf.all.arp_ignore=1")
        host.ip("link", "set", port, "addrgenmode", "none")
        host.ip("address", "add", "10.9.0.1/24", "dev", port)
        host.ip("link", "set", port, "up")
    for one, other in (("red/a1", "red/a2"), ("red/a1", "red/a3"), ("red/a2", "red/a3")):
        exchange(fleet, one, other)
    fleet.receive_all()
    return fleet


def test_each_workload_is_answered_once_by_its_own_host(primary):
    names = ("red/a1", "red/a2", "red/a3")
    for name in names:
        asker = own(primary, name)
        question = arp(1, asker, (bytes(6), ADDRESS), bytes.fromhex(BROADCAST.replace(":", "")))
        for _time in range(2):
            primary.wire(name).send(question)
            received = primary.receive_all(expected=dict.fromkeys(names, 1))
            answer = arp(2, (MAC, ADDRESS), asker, asker[0])
            assert [one[: len(answer)] for one in received.pop(name)] == [answer]
            # Other workloads get the question, as any broadcast, and no gateway of theirs has answered it.
            assert {other: [one[: len(question)] for one in frames] for other, frames in received.items()} == {
                other: [question] for other in names if other != name
            }


def test_the_address_of_the_gateway_passes_between_no_hosts(primary):
    asker = own(primary, "red/a1")
    # A workload with the address of the gateway.
    primary.wire("red/a1").send(arp(1, (MAC, ADDRESS), (bytes(6), asker[1]), bytes.fromhex(BROADCAST.replace(":", ""))))
    host = primary.hosts["node1"]
    wait_dropped(host, "address of the gateway")
    assert primary.receive_all() == {}
    # The gateway of node1 looks for a workload of node2: that one has a gateway of its own.
    port = f"ovn-k8s-mp{primary.plan['networks']['red_net']['id']}"
    target = own(primary, "red/a2")
    host.ip("neighbour", "replace", primary.wire("red/a2").addresses[0], "lladdr", target[0].hex(":"), "dev", port)
    with kernel.in_netns(host.netns), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"heddle", (primary.wire("red/a2").addresses[0], 9))
    wait_dropped(host, "gateway of its own")
    assert primary.receive_all() == {}


def wait_dropped(host, reason: str) -> None:
    """Wait until a host has dropped something for a reason."""
    wait_for(lambda: any(reason in one for one in host.status().get("dropped", ())), f"what is dropped: {reason}")
