# SPDX-License-Identifier: Apache-2.0
"""Traffic during a change: what is sent, what is counted, and the attribution of losses."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.agent.context import NodeContext
from ansible_collections.heddle.ovn.plugins.module_utils.common.polling import attempts
from ansible_collections.heddle.ovn.plugins.module_utils.traffic import control, loop, senders
from ansible_collections.heddle.ovn.plugins.module_utils.traffic import tally as tallies
from ansible_collections.heddle.ovn.plugins.module_utils.traffic.flows import (
    EAST_WEST,
    INTERVALS_MS,
    LONG,
    NEW,
    NORTH_SOUTH,
    TO_SERVICE,
    UDP,
    Answerer,
    Flow,
)
from ansible_collections.heddle.ovn.plugins.module_utils.traffic.loss_table import traffic_table
from ansible_collections.heddle.ovn.plugins.module_utils.traffic.losses import evaluate
from ansible_collections.heddle.ovn.plugins.module_utils.traffic.tally import PATIENCE, Tally, bucket
from lab.ports import free


def reported(sent: int, answered: set[int], delay: float = 0.01) -> dict:
    tally = Tally()
    for number in range(sent):
        assert tally.send(100 + number * 0.01) == number
    for number in sorted(answered):
        tally.answer(number, 100 + number * 0.01 + delay)
    tally.expire(100 + sent * 0.01 + PATIENCE + 1)
    return tally.as_dict()


@pytest.mark.parametrize(
    ("answered", "lost", "gaps"),
    [
        (set(range(10)), 0, []),
        (set(range(10)) - {4}, 1, [[100.03, 100.05, 1]]),
        (set(range(10)) - {0, 1}, 2, [[100.0, 100.02, 2]]),
        (set(range(10)) - {8, 9}, 2, [[100.07, 100.09, 2]]),
        (set(range(10)) - {2, 5, 6}, 3, [[100.01, 100.03, 1], [100.04, 100.07, 2]]),
        (set(), 10, [[100.0, 100.09, 10]]),
    ],
)
def test_losses_and_gaps(answered: set[int], lost: int, gaps: list) -> None:
    found = reported(10, answered)
    assert (found["sent"], found["lost"], found["gaps"]) == (10, lost, gaps)
    assert sum(found["losses"].values()) == lost


def test_packets_in_flight_are_not_counted() -> None:
    tally = Tally()
    for number in range(3):
        tally.send(100.0 + number)
    tally.answer(2, 102.1)
    tally.expire(102.2)
    assert (tally.as_dict()["sent"], tally.as_dict()["lost"]) == (1, 1)


def test_late_answer_counts_as_lost() -> None:
    tally = Tally()
    tally.send(100.0)
    tally.expire(100.0 + PATIENCE + 0.1)
    tally.answer(0, 100.0 + PATIENCE + 0.2)
    found = tally.as_dict()
    assert (found["lost"], found["late"], found["slowest"]) == (1, 1, 0.0)


def test_slow_answers_are_reported_with_their_time() -> None:
    found = reported(2, {0, 1}, delay=1.5)
    assert found["slow"] == {str(bucket(100.0)): 1.5}
    assert found["retried"] == 2


def segment(**changed) -> dict:
    base = {
        "kind": EAST_WEST, "protocol": UDP, "network": "n", "source": "n/a", "target": "n/b", "family": 4,
        "address": "10.0.0.4", "interval": 10, "name": "flow", "began": 100.0, "ended": 130.0, "sent": 3000,
        "late": 0, "retried": 0, "slowest": 0.01, "gaps": [], "losses": {}, "slow": {}, "endpoints": [],
    }  # fmt: skip
    return {**base, "lost": sum(changed.get("losses", {}).values()), **changed}


def host(*segments: dict, **changed) -> dict:
    figures = {
        "began": 95.0, "time": 130.0, "complete": True, "processor_seconds": 1.0, "segments": [*segments],
        "presence": [], "pauses": {}, "problems": [],
    }  # fmt: skip
    return {"figures": {**figures, **changed}, "clock": [-0.05, 0.05], "error": ""}


STEPS = [
    {"time": 100.0, "step": "drain", "nodes": ["h1"], "moved": [{"workload": "n/b", "source": "h1", "target": "h2"}]},
    {"time": 110.0, "step": "change", "nodes": ["h1"], "moved": []},
    {"time": 120.0, "step": "end", "nodes": [], "moved": []},
]


def test_loss_is_attributed_to_a_move_only_during_it() -> None:
    lossy = segment(losses={"1050": 40, "1150": 3}, gaps=[[105.0, 105.4, 40], [115.0, 115.03, 3]])
    still = segment(name="still", source="n/c", target="n/d", losses={"1050": 2}, gaps=[[105.0, 105.02, 2]])
    endpoint = segment(name="service", kind=TO_SERVICE, protocol=NEW, source="n/c", target="n/web", losses={"1050": 1},
                       endpoints=["n/b", "n/d"])  # fmt: skip
    report = evaluate({"h1": host(lossy, still, endpoint)}, STEPS)
    flow, other, to_service = report["flows"]
    assert (to_service["lost"], to_service["lost_by_moves"]) == (1, 1)
    assert (flow["lost"], flow["lost_by_moves"]) == (43, 40)
    assert (flow["longest_gap"], flow["longest_gap_by_moves"]) == (0.03, 0.4)
    assert (other["lost"], other["lost_by_moves"]) == (2, 0)
    phases = {phase["step"]: phase for phase in report["phases"]}
    assert list(phases) == ["before", "drain", "change", "end"]
    assert phases["drain"]["lost"] == {EAST_WEST: 2}
    assert phases["drain"]["lost_by_moves"] == 41
    assert phases["change"]["lost"] == {EAST_WEST: 3}
    assert "n/b" in json.dumps(report["moves"])


def test_late_reset_is_attributed_to_the_move() -> None:
    gaps = [[108.0, 113.0, 50]]
    line = segment(
        protocol=LONG, interval=100, connections=2, resets=[[112.0, 90.0, "reset"], [119.0, 113.0, "reset"]], gaps=gaps,
        losses={"1090": 20, "1125": 2, "1185": 1},
    )  # fmt: skip
    report = evaluate({"h1": host(line)}, STEPS)
    assert [moved for _time, _why, moved in report["flows"][0]["resets"]] == [True, False]
    assert (report["flows"][0]["lost"], report["flows"][0]["lost_by_moves"]) == (23, 22)
    assert report["kinds"][0]["resets_by_moves"] == 1


def test_move_of_a_cut_off_run_is_detected_by_placement() -> None:
    gone = host(presence=[["n/b", "10.0.0.4", 96.0, 97.0]])
    came = host(segment(losses={"975": 10}), presence=[["n/b", "10.0.0.4", 98.0, None]])
    report = evaluate({"h1": gone, "h2": came}, STEPS)
    assert report["flows"][0]["lost_by_moves"] == 10


def test_flow_of_a_moved_source_is_counted_once() -> None:
    report = evaluate({"h1": host(segment()), "h2": host(segment(began=90.0, losses={"1150": 1}))}, STEPS)
    assert len(report["flows"]) == 1
    assert report["flows"][0]["sent"] == 6000
    assert [name for name, _began, _ended in report["flows"][0]["hosts"]] == ["h2", "h1"]


def test_losses_after_the_first_host_ended_do_not_count() -> None:
    ended = host(time=125.0)
    report = evaluate({"h1": ended, "h2": host(segment(losses={"1260": 7}, resets=[[126.0, 90.0, "reset"]]))}, STEPS)
    assert (report["flows"][0]["lost"], report["flows"][0]["resets"]) == (0, [])


@pytest.mark.parametrize(
    ("result", "line"),
    [
        ({"figures": None, "clock": None, "error": "no plan"}, "h1: no figures (no plan)"),
        (host(complete=False), "h1: the process did not end by itself"),
        ({**host(), "clock": [0.4, 0.6]}, "h1: its clock differs by 0.4 s at least"),
        (host(problems=["external: port 7655 is taken"]), "h1: external: port 7655 is taken"),
    ],
)
def test_measurement_problems_are_reported(result: dict, line: str) -> None:
    report = evaluate({"h1": result}, STEPS)
    assert report["problems"][0].startswith(line)
    assert any(line in text for text in traffic_table(report))


def test_the_table_has_every_way_and_step() -> None:
    text = "\n".join(traffic_table(evaluate({"h1": host(segment(losses={"1150": 3}))}, STEPS)))
    assert EAST_WEST in text
    assert all(step["step"] in text for step in STEPS)


# Seconds that only what hangs reaches.
LIMIT = 600


def loopback(*protocols: str) -> loop.Task:
    found = [Flow(NORTH_SOUTH, one, "n", "n/a", "n/b", 4, "127.0.0.1", INTERVALS_MS[one]) for one in protocols]
    return loop.Task(found, [Answerer("n/b", None, "127.0.0.1")], {"n/a": None}, free())


@pytest.fixture
def unhurried(monkeypatch) -> None:
    """No answer is late, however long this process stands still."""
    for module in (tallies, senders):
        monkeypatch.setattr(module, "PATIENCE", LIMIT)


def run_until(work: loop.Traffic, condition: Callable[[Tally], bool], *protocols: str) -> None:
    """Run it until the condition holds for each flow of these protocols."""
    thread = threading.Thread(target=work.run, args=(LIMIT,))
    thread.start()
    for _attempt in attempts(LIMIT):
        found = [flow.protocol for flow, one in [*work.senders.items()] if condition(one.tally)]
        if {*protocols} <= {*found}:
            break
    work.end()
    thread.join()


@pytest.mark.usefixtures("unhurried")
def test_packets_and_connections_are_sent_and_answered(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(loop, "HEAD_START", 0.0)
    work = loop.Traffic(loopback(UDP, LONG, NEW), str(tmp_path / "figures.json"))
    run_until(work, lambda found: found.answered > 3, UDP, LONG, NEW)
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert figures["complete"]
    found = {one["protocol"]: one for one in figures["segments"]}
    assert {name: one["lost"] for name, one in found.items()} == {UDP: 0, LONG: 0, NEW: 0}
    assert all(one["sent"] > 3 for one in found.values())
    assert (found[LONG]["connections"], found[LONG]["resets"]) == (1, [])
    assert figures["presence"][0][:2] == ["n/b", "127.0.0.1"]


def test_missing_responder_is_loss_and_a_failed_connection(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(loop, "HEAD_START", 0.0)
    task = loopback(UDP, LONG, NEW)
    silent = loop.Task(task.flows, [], task.sources, task.port)
    work = loop.Traffic(silent, str(tmp_path / "figures.json"))
    run_until(work, lambda found: found.lost > 0, UDP, NEW)
    found = {one["protocol"]: one for one in json.loads((tmp_path / "figures.json").read_text())["segments"]}
    assert found[UDP]["lost"] == found[UDP]["sent"] > 0
    assert found[NEW]["lost"] == found[NEW]["sent"] > 0
    assert found[LONG]["connections"] == 0


@pytest.mark.usefixtures("unhurried")
def test_an_endpoint_that_refuses_a_connection_to_a_service_was_reached(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(loop, "HEAD_START", 0.0)
    flow = replace(loopback(NEW).flows[0], kind=TO_SERVICE, port=free(), endpoints=("n/b",))
    work = loop.Traffic(loop.Task([flow], [], {"n/a": None}, free()), str(tmp_path / "figures.json"))
    run_until(work, lambda found: found.answered > 0, NEW)
    (found,) = json.loads((tmp_path / "figures.json").read_text())["segments"]
    assert (found["lost"], found["kind"]) == (0, TO_SERVICE)
    assert found["sent"] > 0


ON_OUTSIDE = NodeContext("external", "/nonexistent", write=True)


def request(state: str) -> control.Request:
    return control.Request(state, free(), 60, {"external": ["127.0.0.1"]}, 10)


def test_external_host_answers_until_it_is_stopped(tmp_path) -> None:
    started = request("started")
    try:
        assert control.traffic(replace(ON_OUTSIDE, write=False), started, str(tmp_path))["changed"]
        assert not list(tmp_path.iterdir())
        assert control.traffic(ON_OUTSIDE, started, str(tmp_path))["changed"]
        assert not control.traffic(ON_OUTSIDE, started, str(tmp_path))["changed"]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
            one.settimeout(0.2)
            for _attempt in range(5 * LIMIT):
                one.sendto(b"heddle?" + bytes(8), ("127.0.0.1", started.port))
                try:
                    answer = one.recv(100)
                    break
                except OSError:
                    continue
            assert answer == b"heddle!" + bytes(8)
        assert control.traffic(ON_OUTSIDE, request("collected"), str(tmp_path))["figures"]["complete"] is False
    finally:
        stopped = control.traffic(ON_OUTSIDE, request("stopped"), str(tmp_path))
    assert stopped["changed"]
    assert stopped["figures"]["complete"]
    assert not control.traffic(ON_OUTSIDE, request("stopped"), str(tmp_path))["changed"]
