# SPDX-License-Identifier: Apache-2.0
"""The order and repetition of questions; no result depends on the speed of hosts. Time is simulated."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.expectation import Pair
from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.external_flow import ExternalFlow
from ansible_collections.heddle.ovn.plugins.module_utils.verify.probing import probe_scheduling
from ansible_collections.heddle.ovn.plugins.module_utils.verify.probing.pace import Pace
from ansible_collections.heddle.ovn.plugins.module_utils.verify.probing.probe_scheduling import (
    Reply,
    Unconfirmed,
    ask_required,
    ask_silent,
    confirm,
)
from ansible_collections.heddle.ovn.plugins.module_utils.verify.probing.prober import least_wait

FLOW = ExternalFlow("kind", "node1", "red/a", "red/web", "red/a", "", 4, "10.96.0.1", True, "")


class Hosts:
    """Hosts that decide on one packet after the other, and drop what does not fit into their queue.

    `mute` numbers get no answer, `small` ones none to packets of full size; every `loss`-th packet is lost; nothing
    happens during `stop`, (begin, end) in seconds.
    """

    def __init__(self, seconds: float, queue: int = 100, mute=(), small=(), loss: int = 0, stop=(0.0, 0.0)):
        self.seconds, self.queue, self.mute, self.small, self.loss = seconds, queue, set(mute), set(small), loss
        self.stop = stop
        self.time = self.busy = 0.0
        self.coming: list[tuple[float, Reply]] = []
        self.asked: Counter = Counter()
        self.large: Counter = Counter()
        self.sent = self.dropped = 0

    def now(self):
        return self.time

    def ask(self, number, *, large=False):
        attempt = self.asked[number]
        self.asked[number] += 1
        self.large[number] += large
        self.sent += 1
        if self.loss and self.sent % self.loss == 0:
            return attempt
        if (self.busy - self.time) / self.seconds >= self.queue:
            self.dropped += 1
            return attempt
        self.busy = max(self.busy, self.time) + self.seconds
        if self.stop[0] <= self.busy < self.stop[1]:
            self.busy = self.stop[1]
        if number not in self.mute and not (large and number in self.small):
            self.coming.append((self.busy, Reply(number, attempt, self.busy - self.time, large)))
        return attempt

    def receive(self, until):
        first = min((at for at, _one in self.coming), default=until)
        self.time = max(self.time, min(first, until))
        heard = [one for at, one in self.coming if at <= self.time]
        self.coming = [(at, one) for at, one in self.coming if at > self.time]
        return heard


SPEEDS = pytest.mark.parametrize("seconds", [0.0005, 0.01, 0.05, 0.2], ids=["fast", "medium", "emulated", "slowest"])


@SPEEDS
def test_question_rate_adapts_to_the_hosts(seconds):
    hosts = Hosts(seconds, queue=40)
    answered, large = ask_required(dict.fromkeys(range(200), True), hosts, Pace(), timeout=60)
    assert answered == large == set(range(200))
    assert sum(hosts.asked.values()) <= 230
    assert hosts.time <= 1.3 * 200 * seconds + 1


def test_lost_questions_are_repeated():
    hosts = Hosts(0.001, loss=7)
    answered, _large = ask_required(dict.fromkeys(range(100), False), hosts, Pace(), timeout=5)
    assert answered == set(range(100))
    assert max(hosts.asked.values()) > 1


def test_small_packet_follows_an_unanswered_full_size_packet():
    hosts = Hosts(0.001, small={3})
    answered, large = ask_required(dict.fromkeys(range(5), True), hosts, Pace(), timeout=5)
    assert (answered, large) == (set(range(5)), {0, 1, 2, 4})
    assert hosts.asked[0] == hosts.large[0] == 1
    assert hosts.asked[3] > hosts.large[3] > 0


@pytest.mark.parametrize("mute", [range(1), range(100), range(200)], ids=["one", "half", "all"])
def test_unanswered_questions_do_not_slow_down_others(mute):
    hosts = Hosts(0.002, mute=mute)
    answered, _large = ask_required(dict.fromkeys(range(200), False), hosts, Pace(), timeout=30)
    assert answered == set(range(200)) - set(mute)
    assert hosts.time <= 15


def test_a_dead_network_ends_after_the_timeout():
    hosts = Hosts(0.002, mute=range(5000))
    assert ask_required(dict.fromkeys(range(5000), False), hosts, Pace(), timeout=10)[0] == set()
    assert hosts.time <= 10.5


@SPEEDS
def test_isolation_questions_are_sent_in_small_batches(seconds):
    hosts = Hosts(seconds, queue=70, mute=range(1, 500))
    untested, slowest = ask_silent(list(range(1, 500)), [0], hosts, Pace(), timeout=60)
    assert untested == set()
    assert hosts.dropped == 0
    assert all(hosts.asked[number] == 2 for number in range(1, 500))
    assert slowest >= seconds


def test_a_batch_is_repeated_before_the_next_one():
    """While switches still have the flows of its first packets."""
    order = []

    class Recorded(Hosts):
        def ask(self, number, *, large=False):
            order.append(number)
            return super().ask(number, large=large)

    ask_silent(list(range(1, 100)), [0], Recorded(0.001, mute=range(1, 100)), Pace(), timeout=60)
    asked = [number for number in order if number]
    repeated = {number: asked.index(number, asked.index(number) + 1) - asked.index(number) for number in range(1, 100)}
    assert max(repeated.values()) <= 64


def test_silence_counts_only_after_a_later_control_is_answered():
    hosts = Hosts(1.0, mute=range(1, 20), queue=1000)
    untested, _slowest = ask_silent(list(range(1, 20)), [0], hosts, Pace(), timeout=600)
    assert untested == set()
    # Everything that was sent has been processed when the silence counts.
    assert hosts.time >= hosts.busy


def test_without_a_control_silence_is_not_tested():
    hosts = Hosts(0.001, mute=range(10))
    assert ask_silent([1, 2], [], hosts, Pace(), timeout=5) == ({1, 2}, 0.0)
    untested, slowest = ask_silent([1, 2], [0], hosts, Pace(), timeout=5)
    assert (untested, slowest) == ({1, 2}, 5)


def unconfirmed(*numbers, large=False, controls=(0,)):
    return [Unconfirmed(number, large, controls) for number in numbers]


@SPEEDS
def test_repeated_question_with_an_answer_is_no_failure(seconds):
    found = unconfirmed(1, 2, 3)
    confirm(found, Hosts(seconds), Pace(), timeout=60)
    assert all(one.concluded and not one.dead for one in found)


@SPEEDS
def test_failed_question_waited_longer_than_any_control(seconds):
    found = unconfirmed(1, 2)
    confirm(found, Hosts(seconds, mute={1}), Pace(), timeout=60)
    assert found[1].concluded
    assert not found[0].concluded and found[0].tries == 5 and not found[0].dead
    assert found[0].waited >= 4 * seconds


def test_a_large_suspect_needs_both_sizes():
    found = unconfirmed(1, 2, large=True)
    confirm(found, Hosts(0.01, small={1}), Pace(), timeout=60)
    assert [one.concluded for one in found] == [False, True]
    assert found[0].answered == {False}


@pytest.mark.parametrize("at", [0.0, 0.05, 0.3])
def test_hosts_paused_for_ten_seconds_are_awaited(at):
    found = unconfirmed(1, 2)
    confirm(found, Hosts(0.01, stop=(at, at + 10)), Pace(), timeout=60)
    assert all(one.concluded for one in found)


class Starved(Hosts):
    """The prober does not run while it waits after a control; the answer to the other question comes meanwhile."""

    def ask(self, number, *, large=False):
        attempt = super().ask(number, large=large)
        if number == 1:
            arrival, reply = self.coming.pop()
            self.coming.append((arrival + 0.1, reply))
        return attempt

    def receive(self, until):
        if self.asked[0] and until > self.time and all(one.number for _at, one in self.coming):
            self.time = until + 60
            return []
        return super().receive(until)


def test_what_arrived_while_the_prober_did_not_run_is_read(monkeypatch):
    monkeypatch.setattr(probe_scheduling, "_CONFIRM_ROUNDS", 1)
    suspect = Unconfirmed(1, False, (0,))
    confirm([suspect], Starved(0.01), Pace(), timeout=100)
    assert suspect.concluded


def test_no_result_without_an_answered_control():
    hosts = Hosts(0.01, mute={0, 1, 2})
    found = unconfirmed(1, 2)
    confirm(found, hosts, Pace(), timeout=5)
    assert all(one.dead == 5 and not one.tries for one in found)
    # A control that is known to be dead is not waited for again.
    assert hosts.time < 6


def test_next_control_replaces_a_dead_one():
    found = unconfirmed(1, controls=(9, 0))
    confirm(found, Hosts(0.01, mute={1, 9}), Pace(), timeout=2)
    assert (found[0].dead, found[0].tries) == (0, 5)


def test_full_timeout_without_a_control_of_the_target():
    found = [Unconfirmed(1, False, (0,), least=8.0)]
    confirm(found, Hosts(0.01, mute={1}), Pace(), timeout=60)
    assert found[0].waited >= 7.99


class ControllerPaused(Hosts):
    """A daemon stands still whose answer question 1 needs, and no control question."""

    def ask(self, number, *, large=False):
        attempt = super().ask(number, large=large)
        if number == 1:
            arrival, reply = self.coming.pop()
            self.coming.append((max(arrival, 10.0), reply))
        return attempt


@pytest.mark.parametrize("near", [True, False])
@pytest.mark.parametrize(
    ("row", "is_concluded"),
    [
        (replace(FLOW, protocol="UDP", port=53), True),
        (replace(FLOW, protocol="TCP", port=80, refused=True), True),
        (FLOW, True),
        # What OVN's flows alone answer for fails soon, so that a broken network does not make verify slow.
        (Pair("red/a", "red/b", "red_net", 4, "10.0.0.4", True, ""), False),
    ],
    ids=["name", "refusal", "external host", "workload"],
)
def test_a_paused_ovn_controller_causes_no_failure(row, is_concluded, near):
    found = [Unconfirmed(1, False, (0,), least=least_wait(row, near, 0.01))]
    confirm(found, ControllerPaused(0.01), Pace(), timeout=60)
    assert found[0].concluded is is_concluded
    assert found[0].tries and not found[0].dead


def test_two_percent_loss_causes_no_failure():
    for loss in range(40, 60):
        found = unconfirmed(*range(1, 40))
        confirm(found, Hosts(0.002, loss=loss), Pace(), timeout=60)
        assert all(one.concluded for one in found)


class Balanced(Hosts):
    """Hosts behind a load balancer that chooses a dead endpoint for half of the packets."""

    def __init__(self, *questions: int):
        super().__init__(0.002)
        self.questions, self.choices = questions, random.Random(1)

    def ask(self, number, *, large=False):
        self.mute = {number} if number in self.questions and self.choices.random() < 0.5 else set()
        return super().ask(number, large=large)


def test_a_dead_endpoint_beside_a_working_one_causes_no_failure():
    numbers = range(1, 2000)
    found = [Unconfirmed(number, False, (0,), copies=4) for number in numbers]
    confirm(found, Balanced(*numbers), Pace(), timeout=60)
    assert all(one.concluded for one in found)


def test_a_question_to_several_endpoints_fails_when_all_are_dead():
    found = [Unconfirmed(1, False, (0,), copies=4)]
    confirm(found, Hosts(0.002, mute={1}), Pace(), timeout=60)
    assert not found[0].concluded and (found[0].tries, found[0].dead) == (20, 0)
