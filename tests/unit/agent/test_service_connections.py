# SPDX-License-Identifier: Apache-2.0
"""Which UDP connections end after a change of load balancers."""

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.agent import follow_ups, service_connections
from ansible_collections.heddle.ovn.plugins.module_utils.common.change import Change, Outcome
from ansible_collections.heddle.ovn.plugins.module_utils.openflow.tracked_connections import Translation

BEFORE = {"10.96.0.1:53": "10.0.0.2:5353,10.0.0.3:5353", "[fd96::1]:53": "[fd00::2]:5353", "192.0.2.1:53": ""}


def changes(
    after: dict, *, name: str = "Service_red/web_UDP_cluster", action: str = "update", before=BEFORE
) -> tuple[Change, ...]:
    change = Change("OVN_Northbound", action, "Load_Balancer", name, "red", {"vips": before}, after)
    return (change,)


@pytest.fixture(autouse=True)
def notes(monkeypatch, tmp_path):
    """The file of follow-ups, which is not there yet."""
    found = tmp_path / "follow-ups.json"
    monkeypatch.setattr(follow_ups, "FILE", str(found))
    return found


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
    assert service_connections.ended(changes(after)) == gone


def test_connections_of_other_protocols_go_on():
    assert not service_connections.ended(changes({}, name="Service_red/web_TCP_cluster"))


def test_other_options_end_nothing():
    change = Change(
        "OVN_Northbound", "update", "Load_Balancer", "Service_red/web_UDP_cluster", "red", {}, {"options": {}}
    )
    assert not service_connections.ended([change])
    assert service_connections.end([]) == Outcome()


def test_a_switch_that_does_not_end_connections_is_noted(tmp_path, monkeypatch):
    monkeypatch.setenv("OVS_RUNDIR", str(tmp_path))
    (note,) = service_connections.end([Translation("10.96.0.1", 53, "10.0.0.2", 5353)]).notes
    assert note.startswith("UDP connections to former endpoints of Services may go on: ")


def test_what_a_killed_run_noted_is_ended_by_the_next_one_and_once(monkeypatch, notes):
    seen = []
    monkeypatch.setattr(service_connections, "call", lambda *_words: None)
    monkeypatch.setattr(service_connections, "end_connections", lambda _bridge, found: seen.append(found))
    service_connections.note(changes({"vips": {"10.96.0.1:53": BEFORE["10.96.0.1:53"]}}))
    assert notes.exists()
    for _run in range(2):
        assert service_connections.end_noted() == Outcome()
        assert seen == [[Translation("fd96::1", 53, "fd00::2", 5353)]]
        assert not notes.exists()


def test_what_the_switch_refuses_stays_noted(monkeypatch, tmp_path, notes):
    monkeypatch.setenv("OVS_RUNDIR", str(tmp_path))
    service_connections.note(changes({}))
    assert service_connections.end_noted().notes
    assert notes.exists()


def test_a_change_that_ends_nothing_is_not_noted(notes):
    service_connections.note(changes({"vips": BEFORE}))
    assert not notes.exists()


@pytest.mark.parametrize("content", ["", "[]", "{", '{"connections": 1}', '{"connections": [1, "a b", "a b c d"]}'])
def test_a_damaged_file_ends_nothing_and_goes(notes, content):
    notes.write_text(content)
    assert service_connections.end_noted() == Outcome()
    assert not notes.exists()
