# SPDX-License-Identifier: Apache-2.0
"""Sealed datagrams: what arrives is what was sent, once, and nothing else is accepted."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.heddle.ovn.plugins.module_utils.mesh.codec import SLEEVE_KEY_BYTES, ProtocolError
from ansible_collections.heddle.ovn.plugins.module_utils.mesh.sealing import OVERHEAD, WINDOW, Openers, Sealer

KEY, OTHER, THIRD = (bytes([number]) * SLEEVE_KEY_BYTES for number in (1, 2, 3))


def openers(*keys: bytes) -> Openers:
    made = Openers()
    for generation, key in enumerate(keys, start=1):
        made.add(generation, key)
    return made


def refused(made: Openers, datagram: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        made.open(datagram)


def test_data_is_not_readable_on_its_way_and_arrives():
    sealed = Sealer(1, KEY).seal(b"a frame of a workload")
    assert b"frame" not in sealed
    assert len(sealed) == OVERHEAD + len(b"a frame of a workload")
    assert openers(KEY).open(sealed) == b"a frame of a workload"


def test_datagrams_come_in_any_order_each_once():
    sealer, made = Sealer(1, KEY), openers(KEY)
    sent = [sealer.seal(bytes([number])) for number in range(5)]
    for place in (0, 3, 1, 4, 2):
        assert made.open(sent[place]) == bytes([place])
    for one in sent:
        refused(made, one, "twice, or late")


def test_what_is_older_than_the_window_is_refused():
    sealer, made = Sealer(1, KEY), openers(KEY)
    sent = [sealer.seal(b"") for _number in range(WINDOW + 1)]
    made.open(sent[-1])
    refused(made, sent[0], "twice, or late")
    assert made.open(sent[1]) == b""


def test_a_jump_of_the_numbers_takes_no_memory_and_ends_what_is_older():
    sealer, made = Sealer(1, KEY), openers(KEY)
    early = sealer.seal(b"early")
    assert made.open(sealer.seal(b"first")) == b"first"
    tracemalloc.start()
    for number in (1 << 24, (1 << 64) - 2):
        sealer._number = number
        assert made.open(sealer.seal(b"late")) == b"late"
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()
    refused(made, early, "twice, or late")


@pytest.mark.parametrize("place", [0, 1, 5, 13, -1])
def test_a_changed_datagram_is_refused_and_the_true_one_still_arrives(place):
    sealed, made = Sealer(1, KEY).seal(b"data"), openers(KEY)
    changed = bytearray(sealed)
    changed[place] ^= 1
    refused(made, bytes(changed), "datagram is (not|sealed)")
    assert made.open(sealed) == b"data"


def test_another_key_follows_and_the_one_before_stays_for_what_is_on_its_way():
    made = openers(KEY, OTHER)
    assert made.open(Sealer(2, OTHER).seal(b"new")) == b"new"
    late = Sealer(1, KEY)
    assert made.open(late.seal(b"old")) == b"old"
    forger = Sealer(2, KEY)
    forger.seal(b"")
    refused(made, forger.seal(b"forged"), "not sealed with the key")
    made.add(3, THIRD)
    refused(made, late.seal(b"older"), "a key that is not known")


@given(st.binary(max_size=64))
def test_garbage_is_refused_with_a_reason(datagram):
    refused(openers(KEY), datagram, "datagram")
