# SPDX-License-Identifier: Apache-2.0
"""UDP flows in the kernel, after a Service has another process of the node as its endpoint, or is gone."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import select
import socket

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.polling import attempts
from ansible_collections.heddle.ovn.plugins.module_utils.netlink import kernel
from ansible_collections.heddle.ovn.plugins.module_utils.netlink.protocol import conntrack
from ansible_collections.heddle.ovn.plugins.module_utils.nftables.reconcile import reconcile_firewall
from ansible_collections.heddle.ovn.plugins.module_utils.render.host.firewall import render_firewall
from tests.live.conftest import START_TIMEOUT
from tests.live.nftables.test_isolation import ip
from tests.live.nftables.test_service_rules import PROCESS
from tests.pipeline import namespace as namespace_of
from tests.pipeline import plan_of, with_gateways

ENDS = {4: ("192.0.2.11", "192.0.2.77", 24), 6: ("2001:db8::b", "2001:db8::77", 64)}
PORTS = (5353, 5354, 30053)
PREFIX = f"mf{os.getpid()}-"


class Scene:
    """A host with a server at each of the ports, and a client beyond it that keeps its source port."""

    def __init__(self, namespace, run_nft, stack, family: int) -> None:
        self.run, self.host, outside = run_nft, namespace(f"{PREFIX}host"), namespace(f"{PREFIX}outside")
        own, peer, length = ENDS[family]
        kind = socket.AF_INET6 if family == 6 else socket.AF_INET
        with kernel.in_netns(self.host):
            ip("link", "add", "breth1", "type", "veth", "peer", "name", "eth0", "netns", outside)
        for name, link, address in ((self.host, "breth1", own), (outside, "eth0", peer)):
            with kernel.in_netns(name):
                ip("link", "set", link, "up")
                ip("address", "add", f"{address}/{length}", "dev", link, *(["nodad"] if family == 6 else []))
        with kernel.in_netns(self.host):
            self.servers = {port: stack.enter_context(socket.socket(kind, socket.SOCK_DGRAM)) for port in PORTS}
        for port, server in self.servers.items():
            server.bind((own, port))
        with kernel.in_netns(outside):
            self.client = stack.enter_context(socket.socket(kind, socket.SOCK_DGRAM))
        self.client.settimeout(20)
        self.client.connect((own, 30053))
        self.numbers = itertools.count()

    def load(self, text: str):
        plan = plan_of(text, hosts=with_gateways("shared"))
        with kernel.in_netns(self.host):
            return reconcile_firewall(render_firewall(plan, "node1", with_prober=False), write=True, run=self.run)

    def answered_by(self) -> int:
        """Return the port of the server that receives a datagram, which is repeated until then, and let it answer.

        Links that were just made lose some; later copies of what was answered before are left out.
        """
        text = f"question {next(self.numbers)}".encode()
        ports = {server: port for port, server in self.servers.items()}
        for _attempt in attempts(START_TIMEOUT):
            with contextlib.suppress(OSError):
                self.client.send(text)
            for server in select.select([*ports], [], [], 1)[0]:
                data, sender = server.recvfrom(99)
                if data == text:
                    server.sendto(b"answer to " + text, sender)
                    assert self.client.recv(99) == b"answer to " + text
                    return ports[server]
        return 0


@pytest.fixture
def scene(namespace, run_nft):
    with contextlib.ExitStack() as stack:
        yield lambda family: Scene(namespace, run_nft, stack, family)


@pytest.mark.parametrize("family", [4, 6])
def test_datagrams_follow_the_endpoint_of_a_service(scene, family):
    made = scene(family)
    made.load(namespace_of("red"))
    assert made.answered_by() == 30053
    # The same source port, from before there was a Service.
    assert made.load(PROCESS).notes == ()
    assert made.answered_by() == 5353
    assert made.load(PROCESS.replace("port: 5353", "port: 5354")).notes == ()
    assert made.answered_by() == 5354
    assert made.load(namespace_of("red")).notes == ()
    assert made.answered_by() == 30053


def test_a_kernel_that_does_not_end_flows_is_reported(scene, monkeypatch):
    def refused(_places):
        raise OSError(errno.EPERM, "Operation not permitted")

    made = scene(4)
    made.load(namespace_of("red"))
    monkeypatch.setattr(conntrack, "end_flows", refused)
    (note,) = made.load(PROCESS).notes
    # The node port is at addresses on the provider network, of other NICs, and of the management port: two each.
    assert note.startswith("UDP flows to 6 addresses and ports of Services remain")
    # Other changes end none.
    assert made.load(PROCESS + namespace_of("blue")).notes == ()
