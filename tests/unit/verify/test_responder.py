# SPDX-License-Identifier: Apache-2.0
"""The process that answers for workloads, on a loopback address of this machine."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.polling import attempts
from ansible_collections.heddle.ovn.plugins.module_utils.common.processes import background_process
from ansible_collections.heddle.ovn.plugins.module_utils.verify.probing import processes
from ansible_collections.heddle.ovn.plugins.module_utils.verify.probing.datagram import question, read_answer
from ansible_collections.heddle.ovn.plugins.module_utils.verify.probing.listening import Listener, open_listeners
from ansible_collections.heddle.ovn.plugins.module_utils.verify.probing.processes import Responder
from lab.ports import free

ADDRESS = "127.0.0.1"


@pytest.fixture
def asking() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
        opened.settimeout(600)
        yield opened


@pytest.fixture
def responder(tmp_path: Path, asking: socket.socket) -> Iterator[Responder]:
    """One that answers for red/2 on a port of its own, to which `asking` is connected."""
    port = free()
    one = Responder(str(tmp_path))
    assert one.start([Listener("red/2", None, "red_net", ADDRESS)], port, 3600, write=True) == (True, [])
    asking.connect((ADDRESS, port))
    yield one
    one.stop(write=True)


def process_of(responder: Responder) -> int:
    return responder._running()["pid"]


def test_how_late_a_busy_host_answered_is_recorded(responder: Responder, asking: socket.socket) -> None:
    """Of the latest run of the prober: what was answered promptly before says nothing about it."""
    asking.send(question("first/1/0", "red/1"))
    assert read_answer(asking.recv(2000))["workload"] == "red/2"
    os.kill(process_of(responder), signal.SIGSTOP)
    for number in range(2):
        asking.send(question(f"second/1/{number}", "red/1"))
    time.sleep(0.3)
    os.kill(process_of(responder), signal.SIGCONT)
    assert [read_answer(asking.recv(2000))["answer"] for _number in range(2)] == ["second/1/0", "second/1/1"]
    _stopped, heard, problems = responder.stop(write=True)
    assert problems == []
    assert [one[:4] for one in heard] == [["red/1", "red/2", "red_net", ADDRESS]]
    # The clocks of a pause and of arrivals differ a little.
    assert heard[0][4] >= 0.2


def test_one_prompt_answer_of_a_run_counts(responder: Responder, asking: socket.socket) -> None:
    os.kill(process_of(responder), signal.SIGSTOP)
    asking.send(question("only/1/0", "red/1"))
    sent = time.monotonic()
    os.kill(process_of(responder), signal.SIGCONT)
    asking.recv(2000)
    for number in range(1, 20):
        asking.send(question(f"only/1/{number}", "red/1"))
        asking.recv(2000)
    longest = time.monotonic() - sent
    _stopped, ((*_key, seconds),), _problems = responder.stop(write=True)
    # The time is rounded to milliseconds.
    assert 0 <= seconds <= longest / 19 + 0.001


def test_a_slow_responder_is_waited_for(responder: Responder, asking: socket.socket) -> None:
    """It was killed after five seconds, and what it had received was lost without a word."""
    asking.send(question("run/1/0", "red/1"))
    asking.recv(2000)
    process = process_of(responder)
    os.kill(process, signal.SIGSTOP)
    later = threading.Timer(6, os.kill, (process, signal.SIGCONT))
    later.start()
    stopped, heard, problems = responder.stop(write=True)
    later.join()
    assert (stopped, len(heard), problems) == (True, 1, [])


@pytest.mark.parametrize("how", ["paused", "killed", "emptied"])
def test_a_lost_record_is_a_problem(responder: Responder, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """Without a record of what arrived, silence proves no isolation."""
    process = process_of(responder)
    monkeypatch.setattr(background_process, "STOP_SECONDS", 0.1)
    if how == "paused":
        os.kill(process, signal.SIGSTOP)
    elif how == "killed":
        os.kill(process, signal.SIGKILL)
    else:
        # A host that was restarted has an empty /run.
        os.kill(process, signal.SIGKILL)
        os.unlink(responder.state_file)
    _stopped, heard, (problem,) = responder.stop(write=True)
    assert heard == []
    assert problem.startswith("the responder ended without its record of received packets")
    assert "run heddle.ovn.verify again" in problem


def ended(process: int) -> None:
    """Wait for the end of a process; it has no start time then."""
    for _attempt in attempts(600):
        if background_process.began(process) is None:
            return
    pytest.fail("it did not end")


@pytest.mark.parametrize("ended_at_once", [False, True])
def test_one_whose_lifetime_was_too_short_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ended_at_once: bool
) -> None:
    """Also one that had ended before its start time was read: it was taken for one that runs."""
    if ended_at_once:
        monkeypatch.setattr(processes, "began", ended)
    one = Responder(str(tmp_path))
    one.start([], 1, 0.01, write=True)
    for _attempt in attempts(600):
        if not one.stop(write=False)[0]:
            break
    stopped, heard, (problem,) = one.stop(write=True)
    assert (stopped, heard) == (False, [])
    assert "after 0.01 s" in problem
    assert "larger heddle_verify_lifetime" in problem


@pytest.mark.skipif(os.geteuid() != 0, reason="a nice value below 0 needs root")
def test_it_runs_before_the_daemons_of_the_network(responder: Responder) -> None:
    """On a host limited to a tenth of a processor they kept it from running, and answers were reported as lost."""
    for _attempt in attempts(600):
        if os.getpriority(os.PRIO_PROCESS, process_of(responder)) < -10:
            return
    pytest.fail("its nice value is that of other programs")


def test_an_address_in_use_is_a_problem(responder: Responder, asking: socket.socket) -> None:
    sockets, problems = open_listeners([Listener("red/2", None, "red_net", ADDRESS)], asking.getpeername()[1])
    assert sockets == {}
    assert problems == [f"red/2: {ADDRESS} port {asking.getpeername()[1]}: Address already in use"]
