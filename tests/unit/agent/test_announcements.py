# SPDX-License-Identifier: Apache-2.0
"""Which addresses a host announces, also where the run that set them was killed before it did."""

from __future__ import annotations

import contextlib
import errno
import os
from unittest import mock

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.agent import announcements, follow_ups, node_gateway
from ansible_collections.heddle.ovn.plugins.module_utils.agent.context import NodeContext
from ansible_collections.heddle.ovn.plugins.module_utils.common.change import Change, Outcome
from ansible_collections.heddle.ovn.plugins.module_utils.netlink import kernel
from ansible_collections.heddle.ovn.plugins.module_utils.render.egress.announcements import (
    render_egress_announcements,
)
from ansible_collections.heddle.ovn.plugins.module_utils.types.host_network import HostAddress

from .moves.moving_hosts import egress_plan

CONTEXT = NodeContext("node1", "", write=True)
ADDRESS, NAME = "192.0.2.100", "breth1 192.0.2.100/32"


class Killed(BaseException):
    """The process ends here."""


class Host:
    """A host whose kernel has a set of addresses; `sent` are the frames on its uplink."""

    def __init__(self) -> None:
        self.addresses: set[str] = set()
        self.sent: list[bytes] = []

    def send(self, _bridge: str, _uplink: str, frames: list[bytes]) -> None:
        self.sent += frames

    def reconcile(self, desired, *, planned, **_options) -> Outcome:
        """Set the addresses that are missing."""
        missing = [f"{one.device} {one.address}" for one in desired.addresses if "192.0.2.100" in one.address]
        changes = [
            Change("kernel", "create", "address", name, "", {}, {}) for name in missing if name not in self.addresses
        ]
        if changes:
            planned(changes)
        self.addresses |= {change.name for change in changes}
        return Outcome(tuple(changes))

    def add(self, held, *, planned) -> Outcome:
        """Set addresses."""
        changes = [Change("kernel", "create", "address", f"{one.device} {one.address}", "", {}, {}) for one in held]
        planned(changes)
        self.addresses |= {change.name for change in changes}
        return Outcome(tuple(changes))


@pytest.fixture
def host(monkeypatch, tmp_path) -> Host:
    found = Host()
    monkeypatch.setattr(follow_ups, "FILE", str(tmp_path / "follow-ups.json"))
    monkeypatch.setattr(node_gateway, "APPLIED_FILE", str(tmp_path / "applied"))
    monkeypatch.setattr(kernel, "PYROUTE2_IMPORT_ERROR", None)
    monkeypatch.setattr(node_gateway, "reconcile_host_network", found.reconcile)
    monkeypatch.setattr(node_gateway, "add_addresses", found.add)
    for name in ("_recorded_flows", "apply_firewall", "_egress_flows"):
        monkeypatch.setattr(node_gateway, name, lambda *_words, **_options: Outcome())
    monkeypatch.setattr(node_gateway, "_management_ports", lambda *_words, **_options: (Outcome(), {}))
    monkeypatch.setattr(announcements, "connected", lambda *_words, **_options: contextlib.nullcontext())
    monkeypatch.setattr(announcements, "Switch", lambda _client: found)
    return found


def frames(plan: dict) -> list[bytes]:
    return render_egress_announcements(plan, "node1", [ADDRESS])


def test_an_address_is_announced_once(host):
    plan = egress_plan("node1")
    for _run in range(2):
        node_gateway.apply_gateway(CONTEXT, plan)
        assert host.sent == frames(plan) != []
        assert not follow_ups.are_pending()


def test_an_address_that_a_killed_run_has_set_is_announced_by_the_next_one(host, monkeypatch):
    plan = egress_plan("node1")
    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(node_gateway, "_recorded_flows", mock.Mock(side_effect=Killed))
        node_gateway.apply_gateway(CONTEXT, plan)
    assert host.addresses == {NAME}
    assert not host.sent
    node_gateway.apply_gateway(CONTEXT, plan)
    assert host.sent == frames(plan)
    assert not follow_ups.are_pending()


def test_so_is_one_of_a_move(host, monkeypatch):
    before, plan = egress_plan("node2"), egress_plan("node1")
    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(announcements, "announce", mock.Mock(side_effect=Killed))
        node_gateway.claim_addresses(CONTEXT, before, plan, [ADDRESS])
    assert host.addresses == {NAME}
    node_gateway.apply_gateway(CONTEXT, plan)
    assert host.sent == frames(plan)


def test_an_address_that_another_host_has_meanwhile_is_not_announced(host, monkeypatch):
    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(node_gateway, "_recorded_flows", mock.Mock(side_effect=Killed))
        node_gateway.apply_gateway(CONTEXT, egress_plan("node1"))
    node_gateway.apply_gateway(CONTEXT, egress_plan("node2"))
    assert not host.sent
    assert not follow_ups.are_pending()


@pytest.mark.parametrize(("mac", "reason"), [(None, "No such device"), ("02:00:00:00:00:09", "Network is down")])
def test_a_nic_that_is_missing_or_down_keeps_its_address_noted_and_nothing_else_waits(host, monkeypatch, mac, reason):
    def down(*_words):
        raise OSError(errno.ENETDOWN, os.strerror(errno.ENETDOWN))

    plan, other = egress_plan("node1"), "eth3 203.0.113.100/32"
    held = [HostAddress("eth3", "203.0.113.100/32"), HostAddress("breth1", f"{ADDRESS}/32")]
    monkeypatch.setattr(announcements, "render_held_addresses", lambda *_words: held)
    monkeypatch.setattr(announcements, "read_device_mac", lambda _nic: mac)
    monkeypatch.setattr(announcements, "send_frame", down)
    follow_ups.note(follow_ups.ANNOUNCEMENTS, [other, NAME])
    (note,) = announcements.announce_noted(plan, "node1").notes
    remedy = "run heddle.ovn.networks when the NIC is up"
    assert note == f"egress address 203.0.113.100 is not announced: eth3: {reason}; {remedy}"
    assert host.sent == frames(plan)
    assert follow_ups.noted(follow_ups.ANNOUNCEMENTS) == {other}
    monkeypatch.setattr(announcements, "read_device_mac", lambda _nic: "02:00:00:00:00:09")
    monkeypatch.setattr(announcements, "send_frame", lambda *_words: None)
    assert not announcements.announce_noted(plan, "node1").notes
    assert not follow_ups.are_pending()
