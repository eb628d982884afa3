# SPDX-License-Identifier: Apache-2.0
"""Which ports are opened again: only those on which an ovs-vswitchd that is done with its links receives nothing."""

from __future__ import annotations

import contextlib

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.agent import workloads
from ansible_collections.heddle.ovn.plugins.module_utils.common.change import Outcome


@pytest.fixture
def closed(monkeypatch) -> list:
    """What was done, in order; ovs-vswitchd opens the link `late` when it is done."""
    done: list = []
    links = {"late": {"promiscuous": False}, "stale": {"promiscuous": False}, "well": {"promiscuous": True}}

    def awaited(_client) -> None:
        done.append("awaited")
        links["late"]["promiscuous"] = True

    def close(_client, _found, networks, *, write) -> Outcome:
        done.append((dict(networks), write))
        return Outcome()

    monkeypatch.setattr(workloads, "connected", lambda _remote, write: contextlib.nullcontext(object()))
    monkeypatch.setattr(workloads, "processor_seconds", lambda _daemon: 1.0)
    monkeypatch.setattr(workloads, "await_reconfiguration", awaited)
    monkeypatch.setattr(workloads.kernel, "read_links", lambda _namespace: links)
    monkeypatch.setattr(workloads, "find_ports", lambda _client, names: dict.fromkeys(names - {"portless"}))
    monkeypatch.setattr(workloads, "close_ports", close)
    return done


def test_a_daemon_that_was_started_just_now_is_waited_for(closed):
    workloads.close_stale_ports({"new": "red"}, {"late": "red", "stale": "blue"}, write=True)
    assert closed == ["awaited", ({"new": "red", "stale": "blue"}, True)]


def test_a_link_without_a_port_needs_no_wait(closed):
    workloads.close_stale_ports({}, {"portless": "red"}, write=True)
    assert closed == [({}, True)]


def test_a_check_waits_for_nothing(closed):
    workloads.close_stale_ports({}, {"stale": "blue"}, write=False)
    assert closed == [({"stale": "blue"}, False)]


def test_links_that_are_made_need_no_wait(closed):
    workloads.close_stale_ports({"new": "red"}, {}, write=True)
    assert closed == [({"new": "red"}, True)]


def test_nothing_is_done_while_it_does_not_run(closed, monkeypatch):
    monkeypatch.setattr(workloads, "processor_seconds", lambda _daemon: None)
    workloads.close_stale_ports({"new": "red"}, {"stale": "blue"}, write=True)
    assert closed == []
