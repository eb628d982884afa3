# SPDX-License-Identifier: Apache-2.0
"""Beside the userspace datapath a host receives nothing on the switch's end of a workload's link.

A namespace stands for the host. A workload sends frames itself, to the broadcast MAC, as it may: the kernel, which has
the frames that Open vSwitch reads copies of, would take them in.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from dataclasses import replace

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.netlink import kernel
from ansible_collections.heddle.ovn.plugins.module_utils.netlink.workload_links import reconcile_endpoints
from ansible_collections.heddle.ovn.plugins.module_utils.nftables.reconcile import reconcile_firewall
from ansible_collections.heddle.ovn.plugins.module_utils.render.host.firewall import render_userspace_interfaces
from ansible_collections.heddle.ovn.plugins.module_utils.types.netns_workload import Endpoint, Link
from tests.live.gateway.packets import UDP, Packet

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")

OWNER = f"w{os.getpid()}"
BROADCAST, MAC = "ff:ff:ff:ff:ff:ff", "0a:58:0a:f4:00:03"
# The management port's, as a host has them, and what a DHCP client asks.
OWN = {4: "10.244.0.2", 6: "fd00:10:244::2"}
SENT = [("10.244.0.3", OWN[4]), ("fd00:10:244::3", OWN[6]), ("0.0.0.0", "255.255.255.255")]
PORT = 6767


def endpoint(name: str, **more) -> Endpoint:
    link = Link(
        name="eth0", host_name=f"{OWNER}{name}", mac=MAC, mtu=1400, addresses=(), routes=(), network="red", **more
    )
    return Endpoint(f"{OWNER}_{name}", (link,))


@pytest.fixture
def host(namespace):
    """The network namespace of a host with the management port's addresses."""
    with kernel.in_netns(namespace(f"{OWNER}-host")):
        kernel.change_addresses(None, "lo", {f"{OWN[4]}/32", f"{OWN[6]}/128"}, set())
        yield
        reconcile_endpoints([], owner=OWNER, userspace=True, write=True)


def apply(*endpoints: Endpoint, userspace: bool) -> bool:
    return reconcile_endpoints(list(endpoints), owner=OWNER, userspace=userspace, write=True).changed


def received(*senders: str) -> set[tuple[str, str]]:
    """Send each packet from each sender, in order; return who sent what the host received.

    What the last sender sent is received, and shows that what was sent before is through: the kernel handles frames in
    the order in which they were sent.
    """
    found = set()
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as listener:
        listener.bind(("::", PORT))
        listener.settimeout(0.2)
        deadline = time.monotonic() + 600
        while not found >= {(senders[-1], target) for _source, target in SENT}:
            assert time.monotonic() < deadline, found
            for sender in senders:
                send(sender)
            with contextlib.suppress(TimeoutError):
                while True:
                    sender, target = listener.recv(2000).decode().split()
                    found.add((sender, target))
    return found


def send(sender: str) -> None:
    with (
        kernel.in_netns(f"{OWNER}_{sender}"),
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as link,
    ):
        link.bind(("eth0", 0))
        for source, target in SENT:
            packet = Packet(MAC, BROADCAST, source, target, UDP, PORT, PORT, payload=f"{sender} {target}".encode())
            link.send(packet.encode())


def test_a_workload_reaches_the_host_only_through_its_network(host, run_nft):
    """The link of a workload on an address pool leads to the host itself, and shows what is received there."""
    routed = endpoint("routed", is_routed=True)
    reconcile_firewall(render_userspace_interfaces([]), write=True, run=run_nft)
    apply(endpoint("switched"), routed, userspace=True)
    assert received("switched", "routed") == {("routed", target) for _source, target in SENT}
    assert not apply(endpoint("switched"), routed, userspace=True)


def test_links_of_an_older_release_are_changed(host, run_nft):
    """Such a link answers no ARP, and the host receives what is sent there."""
    switched, routed = endpoint("switched"), endpoint("routed", is_routed=True)
    reconcile_firewall(render_userspace_interfaces([]), write=True, run=run_nft)
    apply(switched, routed, userspace=True)
    kernel.change_link(None, f"{OWNER}switched", group=0)
    assert ("switched", OWN[4]) in received("switched", "routed")
    outcome = reconcile_endpoints([switched, routed], owner=OWNER, userspace=True, write=True)
    assert [(one.before, one.after) for one in outcome.changes] == [
        (
            {"host answers ARP": False, "host receives packets": True},
            {"host answers ARP": False, "host receives packets": False},
        )
    ]
    assert {sender for sender, _target in received("switched", "routed")} == {"routed"}


def test_links_of_the_kernels_datapath_stay_as_they_are(host, run_nft):
    """Open vSwitch takes the frames there before the host."""
    apply(endpoint("switched"), userspace=False)
    assert not apply(endpoint("switched"), userspace=False)
    assert kernel.read_links(None)[f"{OWNER}switched"]["group"] == 0


def test_the_table_is_read_as_it_was_written(host, run_nft):
    table = render_userspace_interfaces(["eth1", "eth2"])
    assert reconcile_firewall(table, write=True, run=run_nft).changed
    assert not reconcile_firewall(table, write=True, run=run_nft).changed
    assert reconcile_firewall(replace(table, chains=()), write=True, run=run_nft).changed
