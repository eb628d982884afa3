# SPDX-License-Identifier: Apache-2.0
"""The control channel without a socket: what a peer may send, and what closes the connection with a reason."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.heddle.ovn.plugins.module_utils.mesh.codec import (
    MAX_HELLO,
    Decoder,
    HeartbeatReceived,
    Hello,
    Keepalive,
    ProbeReceived,
    ProtocolError,
    Records,
    encode,
)
from ansible_collections.heddle.ovn.plugins.module_utils.mesh.connection import PROTOCOL, Connection, surviving
from ansible_collections.heddle.ovn.plugins.module_utils.mesh.peers import Peer

FIRST, SECOND = "02:00:00:00:00:01", "02:00:00:00:00:02"
READ = Keepalive | HeartbeatReceived | ProbeReceived | Records | Hello
OPENING = PROTOCOL + b"\x01\x01"

names = st.binary(min_size=6, max_size=6).map(lambda name: name.hex(":"))
numbers = st.integers(0, 2**64 - 1)
peers = st.builds(
    lambda name, uid, version, short_id, links: Peer(
        name, "node1", uid, version, short_id, {other: state for other, state in links.items() if other != name}
    ),
    names,
    numbers,
    st.integers(0, 2**63 - 1),
    st.none() | st.integers(0, 4095),
    st.dictionaries(names, st.booleans(), max_size=4),
)
messages = st.one_of(
    st.just(Keepalive()),
    st.builds(HeartbeatReceived, st.just("fastdp"), st.integers(0, 2**32 - 1)),
    st.builds(ProbeReceived, st.integers(0, 2**16 - 1)),
    st.builds(Hello, names, st.just("node1"), numbers, numbers, st.just(("fastdp",))),
    st.lists(peers, max_size=4, unique_by=lambda peer: peer.name).map(lambda records: Records(tuple(records))),
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def hello(name, connection=1, overlays=("fastdp",)):
    return Hello(name, "node", 1, connection, overlays)


def pair(**second):
    """Both ends after their hellos."""
    one = Connection(hello(FIRST, connection=5), SECOND, outbound=True, now=0)
    other = Connection(hello(SECOND, **second), FIRST, outbound=False, now=0)
    list(one.receive(other.opening(), 0))
    list(other.receive(one.opening(), 0))
    return one, other


def framed(value):
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return len(body).to_bytes(4, "big") + body


@given(st.lists(messages, max_size=4), st.integers(1, 50))
@settings(max_examples=30, deadline=None)
def test_messages_in_pieces_of_any_size_are_read_as_they_were(sent, size):
    data = b"".join(map(encode, sent))
    decoder = Decoder()
    read = []
    for start in range(0, len(data), size):
        decoder.feed(data[start : start + size])
        while (message := decoder.message()) is not None:
            read.append(message)
    assert read == sent


damaged = st.builds(
    lambda message, index, byte: _changed(encode(message), index, byte), messages, numbers, st.integers(0, 255)
)


@given(st.binary(max_size=200) | json_values.map(framed) | damaged)
@settings(max_examples=100, deadline=None)
def test_any_bytes_are_messages_or_an_error_of_the_protocol(data):
    for connection, before in ((_fresh(), b""), (_fresh(), OPENING), (pair()[0], b"")):
        try:
            read = list(connection.receive(before + data, 0))
        except ProtocolError as error:
            assert str(error)
        else:
            assert all(isinstance(message, READ) for message in read)


def _fresh():
    return Connection(hello(FIRST), SECOND, outbound=True, now=0)


def _changed(data, index, byte):
    data = bytearray(data)
    data[index % len(data)] = byte
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "does not speak the protocol"),
        (PROTOCOL + b"\x02\x03", "the peer knows versions 2 to 3; here 1 to 1"),
        (OPENING + (MAX_HELLO + 1).to_bytes(4, "big"), f"the limit is {MAX_HELLO}"),
        (OPENING + encode(Keepalive()), "the first message is not hello"),
        (OPENING + encode(hello("02:00:00:00:00:03")), "the certificate 02:00:00:00:00:02"),
        (OPENING + encode(hello(SECOND, overlays=("sleeve",))), "no common overlay"),
        (OPENING + encode(hello(SECOND)) * 2, "hello came twice"),
        (OPENING + framed(b"\xff"), "not JSON in UTF-8"),
        (OPENING + framed(b"[" * 4000), "not JSON in UTF-8"),
        (OPENING + framed([]), "not a JSON object"),
        (OPENING + framed({"type": "other"}), "unknown type"),
        (OPENING + framed({"type": ["hello"]}), "unknown type"),
        (OPENING + framed({"type": "hello"}), "exactly the fields name, nickname"),
        (OPENING + framed({"type": "keepalive", "more": 1}), "exactly the fields (none)"),
    ],
)
def test_mistake_closes_the_connection_with_its_reason(data, reason):
    with pytest.raises(ProtocolError) as caught:
        list(_fresh().receive(data, 0))
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "02:00:00:00:00:0G"),
        ("name", FIRST + "\n"),
        ("nickname", "a b"),
        ("uid", -1),
        ("uid", 2**64),
        ("uid", True),
        ("version", 1.0),
        ("short_id", 4096),
        ("short_id", "1"),
        ("links", [SECOND]),
        ("links", {SECOND: 1}),
        ("links", {"x": True}),
        ("links", {FIRST: True}),
    ],
)
def test_field_of_a_record_that_is_wrong_is_refused(field, value):
    record = {"name": FIRST, "nickname": "node1", "uid": 1, "version": 1, "short_id": 1, "links": {SECOND: True}}
    connection, _other = pair()
    assert len(list(connection.receive(framed({"type": "records", "peers": [record]}), 0))) == 1
    with pytest.raises(ProtocolError):
        list(connection.receive(framed({"type": "records", "peers": [{**record, field: value}]}), 0))


def test_both_ends_compute_the_same_uid_and_overlays():
    one, other = pair(connection=9, overlays=("sleeve", "fastdp"))
    assert one.uid == other.uid == 5 ^ 9
    assert one.overlays == other.overlays == ("fastdp",)


def test_of_two_connections_that_of_the_lower_uid_stays():
    low, high = pair(connection=5)[0], pair(connection=4)[0]
    assert surviving(low, high) is surviving(high, low) is low
    assert surviving(low, pair(connection=5)[0]) is None


def test_silence_closes_and_keepalives_prevent_it():
    one, other = pair()
    assert one.tick(29) == b""
    assert list(other.receive(one.tick(30), 30)) == [Keepalive()]
    assert one.tick(59) == b""
    with pytest.raises(ProtocolError, match="nothing for 60 s"):
        one.tick(60)
    other.tick(89)
    with pytest.raises(ProtocolError, match="no hello in time"):
        _fresh().tick(10)
