# SPDX-License-Identifier: Apache-2.0
"""Messages are decoded independent of how the stream is split."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.protocol.framing import Framer, FramingError

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)
MESSAGES = st.lists(st.dictionaries(st.text('{}"\\ab', max_size=4), VALUES, max_size=3), max_size=6)
SEPARATORS = st.sampled_from([b"", b"\n", b"  "])


@given(MESSAGES, SEPARATORS, st.booleans(), st.data())
def test_any_cut_of_the_stream(messages, separator, ascii_only, data):
    stream = separator.join(json.dumps(message, ensure_ascii=ascii_only).encode() for message in messages)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    framer, found = Framer(), []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += framer.feed(stream[start:end])
    assert found == messages


@given(st.text('{}"\\x', max_size=30))
def test_braces_and_quotes_in_strings(text):
    message = {"match": text, "nested": [{text: "}"}]}
    stream = json.dumps(message).encode()
    framer, found = Framer(), []
    for byte in stream:
        found += framer.feed(bytes([byte]))
    assert found == [message]


def test_two_messages_in_one_read_and_half_of_a_third():
    framer = Framer()
    assert framer.feed(b'{"id":1}{"id":2}{"id":') == []
    assert framer.feed(b"3}") == [{"id": 1}, {"id": 2}, {"id": 3}]
    assert framer.feed(b'{"id":4}') == [{"id": 4}]


def test_partial_stream_is_decoded_once():
    framer = Framer()
    part = b'{"a":[' + b'{"b":1},' * 1000
    assert framer.feed(part[:-1], quiet=False) == []
    assert framer.feed(b',{"b":2}', quiet=False) == []
    (message,) = framer.feed(b"]}", quiet=True)
    assert len(message["a"]) == 1001


def test_not_json():
    with pytest.raises(FramingError, match="HTTP"):
        Framer().feed(b"HTTP/1.1 400 Bad Request {}")
