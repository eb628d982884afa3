# SPDX-License-Identifier: Apache-2.0
"""Notices of a move on a real provider network: no step needs them, so nothing else fails when none of them arrives.

Two hosts are network namespaces with an Open vSwitch of their own, whose uplinks are ports of a Linux bridge.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.agent.moves import notices
from ansible_collections.heddle.ovn.plugins.module_utils.agent.moves.notices import NoticeSocket, send_notice
from ansible_collections.heddle.ovn.plugins.module_utils.netlink import kernel
from ansible_collections.heddle.ovn.plugins.module_utils.render.egress.move_notices import (
    CLAIMING,
    ETHERTYPE,
    RELEASED,
    RELEASING,
    Notice,
    notice_frame,
)
from tests.live.conftest import Server, Toolbox, start, stop, wait_for
from tests.live.gateway.packets import tagged, untagged
from tests.live.mesh.wire import Wire
from tests.pipeline import labelled, namespace, plan_of, with_gateways

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")

PREFIX = f"n{os.getpid()}-"
SEGMENT = f"{PREFIX}segment"
NODES = ("node1", "node2")
ADDRESS, VLAN = "192.0.2.100", 100
MOVED = {ADDRESS: "node1"}
MANIFESTS = namespace("red", primary=False) + (
    "---\napiVersion: k8s.ovn.org/v1\nkind: EgressIP\nmetadata: {name: out}\n"
    f"spec: {{egressIPs: [{ADDRESS}], namespaceSelector: {{matchLabels: {{kubernetes.io/metadata.name: red}}}}}}\n"
)
# What hosts send while the address goes from node1 to node2, in this order.
SENT = (Notice(RELEASING, "node1"), Notice(CLAIMING, "node2"), Notice(RELEASED, "node1"))
# At the start of a frame's payload.
HASH = slice(14 + len(b"heddlemv"), 14 + len(b"heddlemv") + 32)


def moving_plan(vlan: int | None = None) -> dict:
    """The plan that the move leads to, where node2 has the address."""
    hosts = with_gateways("shared", vlan=vlan)
    return plan_of(MANIFESTS, hosts={**hosts, "node2": labelled(hosts)["node2"]})


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, timeout=120)


class Provider:
    """The segment with both hosts, and a station that is no host of the plan."""

    def __init__(self, tools: Toolbox, folder: Path, monkeypatch: pytest.MonkeyPatch, stack: ExitStack) -> None:
        self._tools, self._folder, self._stack, self._monkeypatch = tools, folder, stack, monkeypatch
        self._remotes: dict[str, str] = {}
        self._make_namespace(SEGMENT)
        ip("-n", SEGMENT, "link", "add", "segment", "type", "bridge")
        ip("-n", SEGMENT, "link", "set", "segment", "up")
        for node in NODES:
            self._boot(node)
        self.foreign = Wire(SEGMENT, "u-foreign", "foreign", {"mac": "0a:00:00:00:00:66", "addresses": []})
        stack.callback(self.foreign.close)
        ip("-n", SEGMENT, "link", "set", "u-foreign", "master", "segment")
        # A port forwards some time after both ends are up; no notice is repeated, and none may be lost.
        wait_for(self._forwards, "the ports of the segment")

    def _forwards(self) -> bool:
        """Whether the segment forwards between all of its ports (Linux, BR_STATE_FORWARDING)."""
        with kernel.in_netns(SEGMENT):
            listed = subprocess.run(["bridge", "link"], check=True, capture_output=True, text=True, timeout=120).stdout
        return listed.count("state forwarding") == len(NODES) + 1

    def _make_namespace(self, name: str) -> None:
        kernel.create_namespace(name, "")
        self._stack.callback(kernel.remove_namespace, name)

    def _boot(self, node: str) -> None:
        netns, folder = f"{PREFIX}{node}", self._folder / node
        folder.mkdir()
        self._make_namespace(netns)
        ip("link", "add", f"u-{node}", "netns", SEGMENT, "type", "veth", "peer", "name", "eth1", "netns", netns)
        ip("-n", SEGMENT, "link", "set", f"u-{node}", "master", "segment", "up")
        ip("-n", netns, "link", "set", "eth1", "up")
        database = Server(self._tools, folder, "Open_vSwitch", self._tools.schema("Open_vSwitch"))
        self._stack.callback(stop, database.process)
        self._remotes[node] = database.remote
        vsctl = ("ovs-vsctl", f"--db={database.remote}", "--timeout=60")
        self._tools.run(*vsctl, "--no-wait", "init")
        with kernel.in_netns(netns):
            daemon = start(self._tools, folder, "vswitchd", "ovs-vswitchd", "--disable-system", database.remote,
                           environment={"OVS_RUNDIR": str(folder)})  # fmt: skip
        self._stack.callback(stop, daemon)
        bridge = ("breth1", "--", "set", "Bridge", "breth1", "datapath_type=netdev", "fail_mode=secure")
        self._tools.run(*vsctl, "add-br", *bridge, "--", "add-port", "breth1", "eth1")

    def send(self, plan: dict, notice: Notice) -> None:
        """Send a notice as its host does, by the host's Open vSwitch."""
        self._monkeypatch.setattr(notices, "VSWITCH_REMOTE", self._remotes[notice.node])
        self._monkeypatch.setenv("OVS_RUNDIR", str(self._folder / notice.node))
        send_notice(plan, notice)

    def listen(self, plan: dict, node: str) -> NoticeSocket:
        """Return the socket of a host, which is closed after the test."""
        with kernel.in_netns(f"{PREFIX}{node}"):
            return self._stack.enter_context(NoticeSocket(plan, node, MOVED))


@pytest.fixture
def provider(tools: Toolbox, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    with ExitStack() as stack:
        yield Provider(tools, folder, monkeypatch, stack)


def received_until(listener: NoticeSocket, last: Notice) -> set[Notice]:
    """Return all notices that a host receives until this one; fails the test when it does not arrive."""
    found: set[Notice] = set()

    def has_arrived() -> bool:
        found.update(listener.read(0))
        return last in found

    wait_for(has_arrived, str(last))
    return found


@pytest.mark.parametrize("vlan", [None, VLAN])
def test_notices_of_a_host_arrive_at_another_one(provider: Provider, vlan: int | None):
    plan = moving_plan(vlan)
    for notice in SENT:
        [other] = {*NODES} - {notice.node}
        listener = provider.listen(plan, other)
        provider.send(plan, notice)
        assert received_until(listener, notice) == {notice}


def test_notices_of_a_move_to_another_plan_are_ignored(provider: Provider):
    plan = moving_plan()
    listener = provider.listen(plan, "node2")
    for other in ({"revision": plan["revision"] + 1}, {"digest": "other"}, {"deployment": "other"}):
        provider.send({**plan, **other}, SENT[0])
    provider.send(plan, SENT[2])
    assert received_until(listener, SENT[2]) == {SENT[2]}


@pytest.mark.parametrize("vlan", [None, VLAN])
def test_malformed_frames_of_a_foreign_sender_are_ignored(provider: Provider, vlan: int | None):
    plan = moving_plan(vlan)
    listener = provider.listen(plan, "node2")
    # Without a tag, which is added below.
    body, last = (untagged(notice_frame(plan, notice)) for notice in (SENT[0], SENT[2]))
    malformed = [
        body[:14],
        body[: HASH.stop - 1] + bytes([body[HASH.stop - 1] ^ 1]),
        body[:14] + b"\xff" * 46,
        body[: HASH.start] + bytes(32),
        body[:14] + b"HEDDLEMV" + body[HASH.start :],
        # Moved by one byte, longer than any notice, and of an EtherType that hosts do not read.
        body[:14] + b"\0" + body[14:],
        body[:14] + b"heddlemv" * 180,
        body[:12] + (ETHERTYPE + 1).to_bytes(2) + body[14:],
        body[:12] + b"\x08\x00" + body[14:],
    ]
    for frame in (*malformed, last):
        provider.foreign.send(tagged(frame, vlan) if vlan else frame)
    assert received_until(listener, SENT[2]) == {SENT[2]}
