# SPDX-License-Identifier: Apache-2.0
"""The switch learns addresses, floods frames to unknown ones, and disconnects hosts."""

import selectors
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from lab import processes
from lab.config import PROJECT
from lab.errors import LabError
from lab.switch import DONE, Port, Segment, bind, execute, order

BROADCAST = b"\xff" * 6
NEIGHBOUR_DISCOVERY = bytes.fromhex("3333ff000001")
A, B, C = (bytes.fromhex(f"02686400010{number}") for number in (1, 2, 3))
GROUP_SOURCE = bytes.fromhex("010000000001")


def frame(destination, source):
    return destination + source + b"\x86\xdd" + b"payload"


@pytest.fixture
def segment():
    return Segment(["a", "b", "c"])


@pytest.mark.parametrize("destination", [BROADCAST, NEIGHBOUR_DISCOVERY, B])
def test_flood_to_all_but_the_sender(segment, destination):
    assert segment.forward("a", frame(destination, A)) == ["b", "c"]


def test_learned_address_is_not_flooded(segment):
    segment.forward("b", frame(BROADCAST, B))
    assert segment.forward("a", frame(B, A)) == ["b"]


def test_moved_address_is_learned_again(segment):
    segment.forward("b", frame(BROADCAST, B))
    segment.forward("c", frame(BROADCAST, B))
    assert segment.forward("a", frame(B, A)) == ["c"]


def test_no_hairpin(segment):
    segment.forward("a", frame(BROADCAST, B))
    assert segment.forward("a", frame(B, A)) == []


def test_a_group_address_is_never_learned(segment):
    segment.forward("b", frame(BROADCAST, GROUP_SOURCE))
    assert segment.learned == {}


def test_runts_are_dropped(segment):
    assert segment.forward("a", b"\xff" * 13) == []


def test_a_host_that_is_cut_off_neither_sends_nor_receives(segment):
    segment.forward("b", frame(BROADCAST, B))
    segment.set_cut("b", True)
    assert segment.forward("a", frame(B, A)) == ["c"]
    assert segment.forward("b", frame(A, B)) == []
    segment.set_cut("b", False)
    segment.forward("b", frame(BROADCAST, B))
    assert segment.forward("a", frame(B, A)) == ["b"]


def test_the_table_has_a_limit(segment, monkeypatch):
    monkeypatch.setattr("lab.switch.ADDRESSES", 2)
    for source in (A, B, C):
        segment.forward("a", frame(BROADCAST, source))
    assert set(segment.learned) == {A, B}


@pytest.mark.parametrize(
    "command",
    [b"longest a b 1k", b"loss x", b"loss", b"longest a b", b"cut z", b"kut a", b"cut", b"", b"\xff", b"cut a b"],
)
def test_a_command_that_is_wrong_is_refused_and_changes_nothing(segment, command):
    before = dict(vars(segment))
    assert execute([segment], command) not in ("", DONE)
    assert vars(segment) == before and segment.cut == set()


@pytest.fixture
def short_path():
    """pytest's own temporary directories may be too long for a unix socket."""
    with tempfile.TemporaryDirectory(prefix="switch-") as path:
        yield Path(path)


def test_slow_receiver_gets_frames_late_and_in_order(short_path):
    port = Port(short_path / "a.underlay")
    machine = bind(f"{short_path}/a.underlay.machine")
    sent = [bytes([number]) * 1400 for number in range(200)]
    for data in sent:
        port.send(data)
    received = []
    while len(received) < len(sent):
        received.append(machine.recv(2000))
        port.flush()
    assert received == sent


def test_frames_to_a_stopped_receiver_are_dropped(short_path):
    port = Port(short_path / "a.underlay")
    port.send(b"x" * 60)
    assert not port.backlog


def receive(end, seconds):
    with selectors.DefaultSelector() as selector:
        selector.register(end, selectors.EVENT_READ)
        return end.recv(2000) if selector.select(seconds) else None


def test_the_process_switches_frames_between_its_ports(short_path):
    hosts = ("a", "b")
    argv = [sys.executable, "-m", "lab.switch", "--directory", str(short_path), "--segment", "underlay"]
    argv += [word for host in hosts for word in ("--host", host)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, env=processes.environment(PROJECT)) as process:
        try:
            assert process.stdout.readline() == b"ready\n"
            ends = {host: bind(f"{short_path}/{host}.underlay.machine") for host in hosts}
            for host in hosts:
                ends[host].connect(f"{short_path}/{host}.underlay.switch")
            ends["a"].send(frame(BROADCAST, A))
            assert receive(ends["b"], 10) == frame(BROADCAST, A)
            order(short_path, "cut", "b")
            order(short_path, "join", "b")
            order(short_path, "cut", "a")
            ends["b"].send(frame(A, B))
            assert receive(ends["a"], 0.2) is None
            with pytest.raises(LabError, match=r"refuses a command: .*'1k'"):
                order(short_path, "longest", "a", "b", "1k")
            order(short_path, "join", "a")
            ends["b"].send(frame(A, B))
            assert receive(ends["a"], 10) == frame(A, B)
        finally:
            process.kill()


def test_a_switch_that_has_ended_is_named_with_its_remedy(short_path):
    with pytest.raises(LabError, match=r"the switch of this lab does not answer: .*; run: python -m lab up"):
        order(short_path, "cut", "a")
