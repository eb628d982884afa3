# SPDX-License-Identifier: Apache-2.0
"""A workload's link that is recreated while Open vSwitch has its port: userspace datapath, real packets."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.change import Outcome
from ansible_collections.heddle.ovn.plugins.module_utils.common.polling import attempts
from ansible_collections.heddle.ovn.plugins.module_utils.netlink import kernel
from ansible_collections.heddle.ovn.plugins.module_utils.netlink.workload_links import reconcile_endpoints
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.stale_ports import close_ports, find_ports
from ansible_collections.heddle.ovn.plugins.module_utils.types.netns_workload import Endpoint, Link
from tests.live.conftest import wait_for
from tests.live.gateway.test_internal_ports import Vswitchd
from tests.live.netlink.conftest import ip

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")

OWNER = f"l{os.getpid()}"
HOST, PORT = f"{OWNER}-host", 7000
REOPENED = ({"receives from its link": False}, {"receives from its link": True})


def endpoint(number: int) -> Endpoint:
    link = Link(
        name="eth0", host_name=f"w{number}_h", mac=f"0a:58:0a:00:00:{number:02x}", mtu=1400,
        addresses=(f"10.0.0.{number}/24",), routes=(), network="red",
    )  # fmt: skip
    return Endpoint(f"{OWNER}_{number}", (link,))


class Node:
    """A host with two workloads on a bridge; `first` is the one whose link is recreated."""

    def __init__(self, vswitchd: Vswitchd) -> None:
        self._vswitchd = vswitchd
        self.first, self.second = endpoint(1), endpoint(2)
        vswitchd.vsctl("set-fail-mode", "br-int", "standalone")

    def apply(self, *, write: bool = True, closes: bool = True) -> Outcome:
        """Apply the links, and add ports that are missing; without `closes` as an older release did."""
        found = reconcile_endpoints(
            [self.first, self.second], owner=OWNER, userspace=True, write=write,
            close_ports=partial(self._close, write=write) if closes else None,
        )  # fmt: skip
        if write:
            for name in ("w1_h", "w2_h"):
                self._vswitchd.vsctl("--may-exist", "add-port", "br-int", name)
        return found

    def _close(self, made: Mapping[str, str], stale: Mapping[str, str], *, write: bool) -> Outcome:
        with self._vswitchd.database.client() as client:
            networks = {**made, **stale}
            return close_ports(client, find_ports(client, networks), networks, write=write)

    def is_answered(self) -> bool:
        """Whether a datagram of the first one reaches the second, and its answer the first."""
        with _socket(self.second) as server, _socket(self.first) as client:
            server.bind(("10.0.0.2", PORT))
            client.sendto(b"question", ("10.0.0.2", PORT))
            try:
                _question, sender = server.recvfrom(100)
                server.sendto(b"answer", sender)
                return client.recv(100) == b"answer"
            except TimeoutError:
                return False


def _socket(endpoint: Endpoint) -> socket.socket:
    with kernel.in_netns(endpoint.namespace):
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.settimeout(1)
    return made


@pytest.fixture
def node(tools, folder):
    kernel.create_namespace(HOST, "")
    try:
        with kernel.in_netns(HOST):
            vswitchd = Vswitchd(tools, folder)
            try:
                found = Node(vswitchd)
                found.apply()
                assert any(found.is_answered() for _attempt in attempts(60))
                yield found
            finally:
                reconcile_endpoints([], owner=OWNER, userspace=True, write=True)
                vswitchd.stop()
    finally:
        kernel.remove_namespace(HOST)


def remove_link(_node: Node) -> None:
    ip("link", "del", "w1_h")


def remove_namespace(node: Node) -> None:
    """The kernel removes its links some time afterwards."""
    kernel.remove_namespace(node.first.namespace)
    wait_for(lambda: "w1_h" not in kernel.read_links(None), "the end of the link")


def rename(node: Node) -> None:
    """As when an annotation has another interface before this one."""
    node.first = replace(node.first, links=(replace(node.first.links[0], name="net2"),))


@pytest.mark.parametrize("action", [remove_link, remove_namespace, rename])
def test_the_workload_sends_and_receives_again(node, action):
    action(node)
    planned = node.apply(write=False)
    assert [(one.before, one.after) for one in planned.changes if one.kind == "Port"] == [REOPENED]
    assert node.apply().changes == planned.changes
    assert any(node.is_answered() for _attempt in attempts(60))
    assert not node.apply().changed


def test_a_port_that_receives_nothing_any_more_is_found_and_opened_again(node):
    """As an older release left it."""
    remove_link(node)
    node.apply(closes=False)
    assert not node.is_answered()
    (change,) = node.apply(write=False).changes
    assert (change.kind, change.name, change.before, change.after) == ("Port", "w1_h", *REOPENED)
    assert node.apply().changes == (change,)
    assert any(node.is_answered() for _attempt in attempts(60))
    assert not node.apply().changed
