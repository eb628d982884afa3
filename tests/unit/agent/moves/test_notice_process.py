# SPDX-License-Identifier: Apache-2.0
"""Hosts take part in a move by each other's notices: in whatever order these arrive, or if some of them do not."""

from __future__ import annotations

import contextlib
import itertools
import os
import random

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.agent.moves import notice_process as move_watch
from ansible_collections.heddle.ovn.plugins.module_utils.agent.moves import notices as move_notices
from ansible_collections.heddle.ovn.plugins.module_utils.agent.moves import outcome as move_outcome
from ansible_collections.heddle.ovn.plugins.module_utils.agent.moves.notice_process import MoveWatch
from ansible_collections.heddle.ovn.plugins.module_utils.agent.moves.notices import NoticeSocket
from ansible_collections.heddle.ovn.plugins.module_utils.common.change import Change, Outcome
from ansible_collections.heddle.ovn.plugins.module_utils.common.processes import background_process
from ansible_collections.heddle.ovn.plugins.module_utils.common.sockets.packet_capture import captured
from ansible_collections.heddle.ovn.plugins.module_utils.render.egress.move_notices import (
    CLAIMING,
    RELEASED,
    RELEASING,
    Notice,
    expected_notices,
    notice_frame,
    read_notice,
)
from ansible_collections.heddle.ovn.plugins.module_utils.render.host.links_and_routes import render_held_addresses
from tests.unit.agent.moves.moving_hosts import MOVED, NETWORKS, STEPS, Hosts, egress_plan, leads_to, sends_with, takes

NODES = ("node1", "node2", "node3")
PREPARE, RELEASE, CLAIM = STEPS


class Move:
    """An address that goes from node1 to node2; all hosts have prepared and watch."""

    def __init__(self, monkeypatch, tmp_path, network: str) -> None:
        self.after = egress_plan("node2", network=network)
        self.hosts = Hosts(monkeypatch, tmp_path, egress_plan("node1", network=network))
        for node in NODES:
            self.hosts.take(PREPARE, node, self.after)
        self.is_over = False
        self.watches = {node: MoveWatch(self.hosts.context(node), self.after, MOVED) for node in NODES}

    def hear(self, node: str, *notices: Notice) -> list[str]:
        """Let a host hear notices; return what it wrote."""
        self.hosts.seen.clear()
        self.watches[node].act(set(notices))
        self.check()
        return [name for name, _plan in self.hosts.seen]

    def check(self) -> None:
        """At most one host has the address, no other one sends with it, and where it may arrive it is expected."""
        plans = {node: self.hosts.stored(node) for node in NODES}
        have = {node for node, plan in plans.items() if render_held_addresses(plan, node)}
        assert len(have) < 2
        assert {node for node, plan in plans.items() if sends_with(plan, node)} <= have
        assert all(len(leads_to(plan, node)) == 1 for node, plan in plans.items())
        assert self.is_over or (takes(plans["node1"], "node1") and takes(plans["node2"], "node2"))

    def finish(self) -> None:
        for node in NODES:
            self.hosts.take(CLAIM, node, self.after)
            self.check()
        assert sends_with(self.hosts.stored("node2"), "node2")


@pytest.mark.parametrize("is_answered", [True, False])
@pytest.mark.parametrize("network", NETWORKS)
def test_no_host_waits_for_the_control_node(monkeypatch, tmp_path, network, is_answered):
    move = Move(monkeypatch, tmp_path, network)
    ways = {node: leads_to(move.hosts.stored(node), node) for node in NODES}
    # The former host itself waits until it has given the address up.
    assert move.hear("node1", Notice(CLAIMING, "node2")) == []
    assert move.hear("node2", Notice(RELEASING, "node1")) == ["rows"]
    assert move.hosts.notices == [Notice(CLAIMING, "node2")]
    assert move.hear("node3", Notice(RELEASING, "node1")) == []
    assert move.hear("node3", Notice(CLAIMING, "node2")) == ["rows"]
    move.hosts.notices.clear()
    # Without the answers of all new hosts it gives the address up all the same.
    move.hosts.ready = {Notice(CLAIMING, "node2")} if is_answered else set()
    expected = ["rows", "release"] if is_answered else ["release"]
    assert move.hosts.take(RELEASE, "node1", move.after) == expected
    assert move.hosts.notices == [Notice(RELEASING, "node1"), Notice(RELEASED, "node1")]
    assert move.hear("node1") == ["rows"]
    assert move.hear("node2", Notice(RELEASED, "node1")) == ["claim"]
    assert sends_with(move.hosts.stored("node2"), "node2")
    for node, way in ways.items():
        assert leads_to(move.hosts.stored(node), node) == leads_to(move.after, node) != way
    # The step of the playbook finds nothing to do, and waits for OVN.
    for node in NODES:
        assert move.hosts.take(CLAIM, node, move.after) == ["rows", "wait"]
        assert move.hear(node, Notice(RELEASED, "node1")) == []
    move.is_over = True
    for node in NODES:
        move.hosts.apply(node, move.after)
        assert move.hear(node, Notice(RELEASED, "node1"), Notice(CLAIMING, "node2")) == []
        assert move.hosts.stored(node) == move.after


def test_the_only_new_host_writes_rows_of_its_own_workloads_before_it_replies(monkeypatch, tmp_path):
    """After the reply all others wait for it to take the address."""
    move, written = Move(monkeypatch, tmp_path, "Layer2"), []
    monkeypatch.setattr(
        move_watch, "send_notice", lambda _plan, _notice: written.append([name for name, _plan in move.hosts.seen])
    )
    move.hear("node2", Notice(RELEASING, "node1"))
    assert written == [["rows"]]


@pytest.mark.parametrize("seed", range(24))
def test_notices_may_be_lost_and_come_in_any_order(monkeypatch, tmp_path, seed):
    choice = random.Random(seed)
    move = Move(monkeypatch, tmp_path, choice.choice([*NETWORKS]))
    released = choice.random() < 0.8
    sent = [Notice(RELEASING, "node1"), *([Notice(RELEASED, "node1")] if released else []), Notice(CLAIMING, "node2")]
    heard = [(node, one) for node, one in itertools.product(NODES, sent) if choice.random() < 0.7]
    choice.shuffle(heard)
    if released:
        move.hosts.take(RELEASE, "node1", move.after)
    for node, notice in heard:
        move.hear(node, notice)
    if not released:
        assert render_held_addresses(move.hosts.stored("node1"), "node1")
        move.hosts.take(RELEASE, "node1", move.after)
    move.finish()


def test_an_address_waits_for_its_own_former_host_only(monkeypatch, tmp_path):
    before, after = egress_plan("node1"), egress_plan("node2")
    address = "192.0.2.101"
    for plan, holder in ((before, "node3"), (after, "node2")):
        plan["egress_ips"]["out"]["addresses"].append({"address": address, "node": holder})
        plan["digest"] = holder
    moved = MOVED | {address: "node3"}
    hosts = Hosts(monkeypatch, tmp_path, before)
    for node in NODES:
        hosts.take(PREPARE, node, after, moved)
    watch = MoveWatch(hosts.context("node2"), after, moved)
    hosts.seen.clear()
    watch.act({Notice(RELEASING, "node3"), Notice(RELEASED, "node3")})
    assert [one.address for one in render_held_addresses(hosts.stored("node2"), "node2")] == [f"{address}/32"]
    # The other host is dead, as the playbook finds.
    assert hosts.take(CLAIM, "node2", after, moved) == ["claim", "rows", "wait"]
    assert len(render_held_addresses(hosts.stored("node2"), "node2")) == 2


def test_a_host_with_another_plan_than_that_of_the_move_does_nothing(monkeypatch, tmp_path):
    move = Move(monkeypatch, tmp_path, "Layer2")
    other = egress_plan("node3")
    move.hosts.keep("node2", other)
    move.hosts.seen.clear()
    move.watches["node2"].act({Notice(RELEASING, "node1"), Notice(RELEASED, "node1")})
    assert move.hosts.seen == []
    assert move.hosts.stored("node2") == other


def test_what_it_changed_is_reported_by_the_step(monkeypatch, tmp_path):
    monkeypatch.setattr(move_outcome, "FILE", str(tmp_path / "moved.json"))
    change = Change("kernel", "create", "address", "breth1 192.0.2.100/32", "", {}, {"deprecated": False})
    assert not move_outcome.take_outcome().changed
    move_outcome.add_outcome(Outcome((change,)))
    move_outcome.add_outcome(Outcome())
    move_outcome.add_outcome(Outcome((change,)))
    assert move_outcome.take_outcome() == Outcome((change, change))
    assert not move_outcome.take_outcome().changed
    (tmp_path / "moved.json").write_text("[{}")
    assert not move_outcome.take_outcome().changed


def test_frames_of_one_move_are_read_and_no_others():
    before, after = egress_plan("node1"), egress_plan("node2")
    expected = expected_notices(after, MOVED)
    sent = [Notice(RELEASING, "node1"), Notice(RELEASED, "node1"), Notice(CLAIMING, "node2")]
    assert sorted(map(str, expected.values())) == sorted(map(str, sent))
    for notice in sent:
        frame = notice_frame(after, notice)
        assert frame[:6] == b"\xff" * 6
        assert frame[6:12].hex(":") == after["nodes"][notice.node]["gateway"]["mac"]
        assert len(frame) == 60
        assert read_notice(frame, expected) == notice
        for other in (before, {**after, "revision": after["revision"] + 1}, {**after, "deployment": "other"}):
            assert read_notice(notice_frame(other, notice), expected) is None
        assert read_notice(frame[:40], expected) is None
    assert read_notice(notice_frame(after, Notice(CLAIMING, "node3")), expected) is None
    after["nodes"]["node1"]["gateway"]["vlan"] = 7
    assert notice_frame(after, sent[0])[12:16] == b"\x81\x00\x00\x07"
    after["nodes"]["node1"]["gateway"] = None
    assert notice_frame(after, sent[0]) is None
    with pytest.raises(OSError, match="node1 has no provider network"):
        NoticeSocket(after, "node1", MOVED)


def test_a_host_without_preparation_or_without_the_uplink_does_not_watch(monkeypatch, tmp_path):
    monkeypatch.setattr(move_watch.os, "fork", lambda: pytest.fail("a process was started"))
    before, after = egress_plan("node1"), egress_plan("node2")
    hosts = Hosts(monkeypatch, tmp_path, {**before, "digest": "other"})
    move_watch.begin_watch(hosts.context("node2"), after, MOVED)
    hosts.take(PREPARE, "node2", after)
    monkeypatch.setattr(move_watch, "NoticeSocket", NoticeSocket)
    monkeypatch.setattr(move_notices, "captured", lambda _device, program: captured("none", program))
    move_watch.begin_watch(hosts.context("node2"), after, MOVED)


def test_the_process_has_the_priority_of_ovn_s_daemons(monkeypatch, tmp_path):
    """On a host with one processor the addresses waited up to a second for OVN's computation."""
    reader, writer = os.pipe()
    group = tmp_path / "autogroup"
    monkeypatch.setattr(background_process, "_GROUP", str(group))
    monkeypatch.setattr(background_process.os, "setpriority", lambda *given: os.write(writer, repr(given).encode()))
    monkeypatch.setattr(move_watch.MoveWatch, "follow", lambda _watch, _notices: None)
    move = Move(monkeypatch, tmp_path, "Layer2")
    # The process keeps only the descriptor of its socket.
    socket = os.fdopen(writer, "wb")
    monkeypatch.setattr(move_watch, "NoticeSocket", lambda *_plan: contextlib.closing(socket))
    move_watch.begin_watch(move.hosts.context("node2"), move.after, MOVED)
    with os.fdopen(reader) as seen:
        assert seen.read() == repr((os.PRIO_PROCESS, 0, -10))
    assert group.read_text() == "-10"
