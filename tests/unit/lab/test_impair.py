# SPDX-License-Identifier: Apache-2.0
"""Slow hosts and lossy links: what is limited, stopped and dropped."""

import os
import subprocess
import sys

import pytest

from lab import impair
from lab.errors import LabError
from lab.switch import Segment

A, B, C = (bytes.fromhex(f"02686400010{number}") for number in (1, 2, 3))
TYPE = b"\x86\xdd"


def state(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        return file.read().rpartition(")")[2].split()[0]


@pytest.fixture
def idle():
    process = subprocess.Popen(["sleep", "60"])
    yield process.pid
    process.kill()
    process.wait()


def test_paused_process_stops_until_it_is_resumed(idle):
    impair.pause([idle], True)
    assert state(idle) == "T"
    impair.pause([idle], False)
    assert state(idle) in "SR"


@pytest.mark.skipif(os.geteuid() != 0, reason="limits of processor time need root")
@pytest.mark.skipif(not impair.can_throttle(), reason="no cpu controller of cgroups here")
def test_throttled_process_does_not_exceed_its_limit():
    group = f"heddle-test-{os.getpid()}/host"
    busy = "import time\nbegan = time.process_time()\nend = time.monotonic() + 1\n" + (
        "while time.monotonic() < end: pass\nprint(time.process_time() - began)"
    )
    waits = [sys.executable, "-c", f"input()\n{busy}"]
    with subprocess.Popen(waits, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        impair.throttle(group, [process.pid], 10)
        used = float(process.communicate("\n")[0])
    impair.remove(group)
    # A limit is an upper bound, whatever else the machine does.
    assert used < 0.3
    assert not any((top / group).parent.exists() for top in (impair.CGROUPS / "cpu", impair.CGROUPS))


def test_rules_without_a_loss_remove_the_table():
    assert impair.rules(0, None) == "table bridge heddle_lab {}\ndelete table bridge heddle_lab\n"


def test_rules_drop_a_percentage_and_large_frames_between_two_hosts():
    text = impair.rules(2.5, ("node1", "node2", 1000))
    assert "numgen random mod 1000 < 25 drop" in text
    assert 'iifname "node1-eth1" oifname "node2-eth1" meta length > 1000 drop' in text
    assert 'iifname "node2-eth1" oifname "node1-eth1" meta length > 1000 drop' in text


def test_rules_name_every_segment_that_two_hosts_share():
    text = impair.rules(0, ("node1", "external", 1000))
    assert 'iifname "external-eth2" oifname "node1-eth2" meta length > 1000 drop' in text


def test_what_is_impaired_is_read_from_words():
    assert [impair.percent_of(text) for text in ("off", "1", "100")] == [None, 1, 100]
    assert [impair.loss_of(text) for text in ("0", "2.5", "100")] == [0, 2.5, 100]
    assert impair.blackhole_of(None) is None
    assert impair.blackhole_of(["node1", "external", "1000"]) == ("node1", "external", 1000)


@pytest.mark.parametrize("text", ["0", "101", "-1", "1.5", "ten", "", "on"])
def test_limits_of_processor_time_that_are_refused(text):
    with pytest.raises(LabError, match="is no limit of processor time; write a whole number from 1 to 100, or off"):
        impair.percent_of(text)


@pytest.mark.parametrize("text", ["-1", "100.1", "nan", "inf", "1k", ""])
def test_losses_that_are_refused(text):
    with pytest.raises(LabError, match="is no percentage; write a number from 0 to 100"):
        impair.loss_of(text)


@pytest.mark.parametrize(
    ("words", "said"),
    [(("node1", "node2", size), "is no size of a packet; write whole bytes from 1 to 65535")
     for size in ("1k", "-1", "0", "65536", "1.5", "")]
    + [(("node1", "node1", "9"), "has node1 twice; name two hosts"),
       (("node1", "node9", "9"), "there is no host node9; use one of node1"),
       (("a b", "node1", "9"), "there is no host a b")],
)  # fmt: skip
def test_blackholes_that_are_refused(words, said):
    with pytest.raises(LabError, match=said):
        impair.blackhole_of(words)


def learned():
    segment = Segment(["a", "b", "c"])
    for port, address in (("a", A), ("b", B), ("c", C)):
        segment.forward(port, b"\xff" * 6 + address + TYPE)
    return segment


def test_switch_drops_a_percentage_of_all_frames():
    segment = learned()
    segment.obey("loss", "20")
    passed = sum(bool(segment.forward("a", B + A + TYPE)) for _frame in range(2000))
    assert 1400 < passed < 1800
    segment.obey("loss", "0")
    assert all(segment.forward("a", B + A + TYPE) for _frame in range(100))


def test_switch_drops_large_frames_between_two_hosts_only():
    segment = learned()
    segment.obey("longest", "a", "b", "1000")
    small, large = TYPE + b"x" * 998, TYPE + b"x" * 1200
    assert segment.forward("a", B + A + small) == ["b"]
    assert segment.forward("a", B + A + large) == segment.forward("b", A + B + large) == []
    assert segment.forward("a", C + A + large) == ["c"]
    segment.obey("longest", "-", "-", "0")
    assert segment.forward("a", B + A + large) == ["b"]
