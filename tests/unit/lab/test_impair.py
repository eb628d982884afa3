# SPDX-License-Identifier: Apache-2.0
"""Slow hosts and lossy links: what is limited, stopped and dropped."""

import errno
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

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


@pytest.fixture
def unified(tmp_path, monkeypatch):
    """A directory that looks like the root of cgroup v2 with the cpu controller."""
    monkeypatch.setattr(impair, "CGROUPS", tmp_path)
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu io\n")
    return tmp_path


def test_host_that_was_started_again_is_limited_again(unified):
    impair.throttle("lab/host", [71], 10)
    assert (unified / "lab/host/cgroup.procs").read_text() == "71"
    (unified / "lab/host/cgroup.procs").write_text("")  # it was killed
    impair.throttle("lab/host", [72], 20)
    assert (unified / "lab/host/cgroup.procs").read_text() == "72"
    assert (unified / "lab/host/cpu.max").read_text() == "4000 20000"


def test_processes_of_a_container_stay_in_their_own_groups(unified):
    for name, pids in (("", ""), ("supervisor", "71\n"), ("payload/init.scope", "72\n73\n")):
        (unified / "lab/host" / name).mkdir(parents=True, exist_ok=True)
        (unified / "lab/host" / name / "cgroup.procs").write_text(pids)
    impair.throttle("lab/host", [71, 72, 73], 10)
    assert (unified / "lab/host/cgroup.procs").read_text() == ""
    assert (unified / "lab/host/cpu.max").read_text() == "2000 20000"


@pytest.fixture
def removals(unified, monkeypatch):
    """A group of a host, and the paths that removal is tried for; the group's is refused as often as `busy` says."""
    (unified / "lab/host").mkdir(parents=True)
    tried, rmdir = [], Path.rmdir

    def refuse(path):
        tried.append(path)
        if path.name == "host" and len(tried) <= removals.busy:
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), str(path))
        rmdir(path)

    monkeypatch.setattr(Path, "rmdir", refuse)
    monkeypatch.setattr(impair, "REMOVAL_INTERVAL", 0)
    removals = SimpleNamespace(busy=0, tried=tried, group=unified / "lab/host")
    return removals


def test_group_that_is_busy_is_removed_when_its_processes_have_left(removals):
    removals.busy = 5
    assert impair.remove("lab/host") == []
    assert not removals.group.parent.exists()


def test_group_that_stays_busy_is_named_after_a_bounded_number_of_attempts(removals):
    removals.busy = 10 * impair.REMOVALS
    assert impair.remove("lab/host") == [f"{removals.group} (Device or resource busy)"]
    assert removals.tried.count(removals.group) == impair.REMOVALS


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
