# SPDX-License-Identifier: Apache-2.0
"""The search for the largest packet of a path, on paths that lose packets, delay them and answer late."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.heddle.ovn.plugins.module_utils.underlay.packet import CONTROL
from ansible_collections.heddle.ovn.plugins.module_utils.underlay.search import LOSSES, PAUSES, Search


def result(ceiling: int, limit: int, *, loss=0.0, delay=0.01, seed=1, interface: int = 65535) -> Search:
    """Run a search on a path that loses what is longer than `limit`, and a share of all else; acknowledged in order."""
    chance, now, search = random.Random(seed), 0.0, Search(ceiling, 0.0)
    coming: list[tuple[float, int, int]] = []
    for _step in range(5_000):
        if search.is_finished:
            return search
        for size, number in search.due(now):
            if size > interface:
                search.too_large(size, now)
            elif size <= limit and chance.random() >= loss:
                coming.append((now + delay, size, number))
        due = min([search.next, *(one[0] for one in coming[:1])])
        now = max(now, due)
        while coming and coming[0][0] <= now:
            _at, size, number = coming.pop(0)
            search.acknowledged(size, number, now)
    raise AssertionError("the search does not end")


@pytest.mark.parametrize("limit", [1500, 1499, 1450, 1433, 600, 321, 320])
def test_the_largest_size_is_found_exactly(limit):
    assert result(1500, limit).largest == limit


def test_what_the_interface_does_not_take_needs_no_path():
    assert result(65535, 65535, interface=1500).largest == 1500


def test_nothing_gets_through():
    search = result(1500, 0)
    assert (search.largest, search.is_finished) == (0, True)


@settings(max_examples=25, deadline=None)
@given(st.integers(320, 9100), st.integers(0, 1000), st.sampled_from([0.001, 0.15, 1.0, 3.0]))
def test_slow_and_lossy_paths_give_the_same(limit, seed, delay):
    """A path may take longer than the pauses between rounds: late acknowledgements count as well."""
    assert result(9100, limit, loss=0.02, delay=delay, seed=seed).largest <= limit
    assert result(9100, limit, delay=delay).largest == limit


def test_an_acknowledgement_counts_once():
    search = Search(1500, 0.0)
    (_large, (_control, first)) = search.due(0.0)
    search.due(PAUSES[0])
    for _again in range(20):
        search.acknowledged(CONTROL, first, 1.0)
    assert not search.is_finished
    search.acknowledged(1500, first, 1.0)
    assert (search.largest, search.is_finished) == (1500, True)


def test_an_acknowledgement_of_another_size_is_no_sign_of_a_loss():
    search = Search(1500, 0.0)
    late = [number for _round in range(LOSSES) for _size, number in search.due(search.next)[:1]]
    for number in late:
        search.acknowledged(CONTROL, number, 10.0)
    ((candidate, _number), _control) = search.due(10.0)
    for number in late:
        search.acknowledged(CONTROL, number, 11.0)
    assert search.due(20.0)[0][0] == candidate == 910


def test_packets_of_another_encapsulation_show_that_nothing_gets_through():
    """Only rounds that were sent after the last loss was known count, however late and in what order all is read."""
    search, rounds = Search(1500, 0.0), 0
    while not search.is_finished:
        sent = search.due(search.next)
        rounds += 1
        for _again in range(LOSSES):
            for number in range(1, sent[0][1] + 1):
                search.witnessed(number)
    assert (rounds, search.largest) == (LOSSES, 0)

    search = Search(1500, 0.0)
    sent = [search.due(search.next) for _round in range(LOSSES)]
    for _size, number in (packets[0] for packets in sent):
        search.witnessed(number)
    assert not search.is_finished
    search.acknowledged(CONTROL, sent[0][1][1], 10.0)
    for number in range(1, 1000):
        search.witnessed(number)
    assert not search.is_finished
