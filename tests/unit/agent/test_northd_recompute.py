# SPDX-License-Identifier: Apache-2.0
"""When ovn-northd has to compute everything; that it does is in tests/live/gateway/test_refusals.py."""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.agent import northd_recompute
from ansible_collections.heddle.ovn.plugins.module_utils.common.change import Change, Outcome

PLAN = {
    "nodes": {"node1": {"gateway": {"addresses": ["192.0.2.11/24", "2001:db8::b/64"]}}, "node2": {"gateway": None}},
    "networks": {"flat": {"topology": "Layer2"}, "deep": {"topology": "Layer3"}},
}
MINE = {"192.0.2.11:30000": "10.0.0.1:80"}


def needed(action: str, before: dict, after: dict, network: str = "flat", node: str = "node1") -> bool:
    change = Change("OVN_Northbound", action, "Load_Balancer", "web", network, before, after)
    return northd_recompute.is_needed(Outcome((change,)), PLAN, node)


@pytest.mark.parametrize("vips", [MINE, {"[2001:db8::b]:30000": ""}])
def test_a_load_balancer_that_loses_an_address_of_the_node(vips):
    assert needed("update", {"vips": vips}, {"vips": {}})
    assert not needed("update", {"vips": vips}, {"vips": {}}, network="deep")
    assert not needed("update", {"vips": vips}, {"vips": {}}, node="node2")
    # Nothing is forgotten of one that goes altogether.
    assert not needed("delete", {"vips": vips}, {})


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"vips": {}}, {"vips": MINE}),
        ({"vips": MINE}, {"vips": {"192.0.2.11:30001": ""}}),
        ({"vips": {"10.96.0.9:80": ""}}, {"vips": {}}),
        ({"options": {}}, {"options": {"reject": "true"}}),
    ],
)
def test_other_changes(before, after):
    assert not needed("update", before, after)


def answering(monkeypatch, counts: list[str | None]) -> list[tuple]:
    """Let northd answer with these counts, the last one for ever; returns what it is asked for."""
    asked = []

    def call(_daemon, *command):
        asked.append(command)
        if command == ("inc-engine/recompute",):
            return ""
        return counts.pop(0) if len(counts) > 1 else counts[0]

    monkeypatch.setattr(northd_recompute, "call", call)
    return asked


def test_a_lost_request_is_repeated(monkeypatch):
    asked = answering(monkeypatch, ["3", "3", "3", "4"])
    assert northd_recompute.recompute() == Outcome()
    assert asked.count(("inc-engine/recompute",)) == 3


@pytest.mark.parametrize("counts", [[None], ["3"]])
def test_a_northd_that_does_not_is_noted(monkeypatch, counts):
    answering(monkeypatch, counts)
    [note] = northd_recompute.recompute(timeout=0.05).notes
    assert "systemctl restart ovn-northd" in note
