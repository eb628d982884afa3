# SPDX-License-Identifier: Apache-2.0
"""Which UDP connections end after a change of load balancers."""

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.agent import service_connections
from ansible_collections.heddle.ovn.plugins.module_utils.common.change import Change, Outcome
from ansible_collections.heddle.ovn.plugins.module_utils.openflow.tracked_connections import Translation

BEFORE = {"10.96.0.1:53": "10.0.0.2:5353,10.0.0.3:5353", "[fd96::1]:53": "[fd00::2]:5353", "192.0.2.1:53": ""}


def outcome(
    after: dict, *, name: str = "Service_red/web_UDP_cluster", action: str = "update", before=BEFORE
) -> Outcome:
    change = Change("OVN_Northbound", action, "Load_Balancer", name, "red", {"vips": before}, after)
    return Outcome((change,))


@pytest.mark.parametrize(
    ("after", "gone"),
    [
        ({"vips": BEFORE}, []),
        ({"vips": {**BEFORE, "192.0.2.1:53": "10.0.0.2:5353"}}, []),
        (
            {"vips": {**BEFORE, "10.96.0.1:53": "10.0.0.3:5353,10.0.0.4:5353"}},
            [Translation("10.96.0.1", 53, "10.0.0.2", 5353)],
        ),
        ({"vips": {"10.96.0.1:53": BEFORE["10.96.0.1:53"]}}, [Translation("fd96::1", 53, "fd00::2", 5353)]),
        (
            {},
            [
                Translation("10.96.0.1", 53, "10.0.0.2", 5353),
                Translation("10.96.0.1", 53, "10.0.0.3", 5353),
                Translation("fd96::1", 53, "fd00::2", 5353),
            ],
        ),
    ],
)
def test_targets_that_are_gone(after, gone):
    assert service_connections.ended(outcome(after)) == gone


def test_connections_of_other_protocols_go_on():
    assert not service_connections.ended(outcome({}, name="Service_red/web_TCP_cluster"))


def test_other_options_end_nothing():
    change = Change(
        "OVN_Northbound", "update", "Load_Balancer", "Service_red/web_UDP_cluster", "red", {}, {"options": {}}
    )
    assert not service_connections.ended(Outcome((change,)))
    assert service_connections.end([]) == Outcome()


def test_a_switch_that_does_not_end_connections_is_noted(tmp_path, monkeypatch):
    monkeypatch.setenv("OVS_RUNDIR", str(tmp_path))
    (note,) = service_connections.end([Translation("10.96.0.1", 53, "10.0.0.2", 5353)]).notes
    assert note.startswith("UDP connections to former endpoints of Services may go on: ")
