# SPDX-License-Identifier: Apache-2.0
"""Messages of the control channel: four bytes of length, big endian, and a JSON object.

A peer is authenticated, but that does not make its bytes correct: every field is checked, sizes are bounded before
anything is stored, and the first mistake ends the connection with its reason.
"""

from __future__ import annotations

import json
import re
import struct
from dataclasses import dataclass, field

from ..common.errors import EngineError
from .heartbeat import NUMBERS
from .peers import SHORT_IDS, Peer

MAX_MESSAGE = 10 * 1024 * 1024
MAX_HELLO = 4096
_LENGTH = struct.Struct("!I")
_NAME = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}", re.ASCII)
_NICKNAME = re.compile(r"[A-Za-z0-9._-]{0,253}", re.ASCII)
_OVERLAY = re.compile(r"[a-z0-9]{1,16}", re.ASCII)
# AES-256-GCM with its salt (RFC 4106, section 8.1), or none; ChaCha20-Poly1305.
ESP_KEY_BYTES, SLEEVE_KEY_BYTES = 36, 32
_ESP_KEY = re.compile(rf"([0-9a-f]{{{2 * ESP_KEY_BYTES}}})?", re.ASCII)
_SLEEVE_KEY = re.compile(rf"[0-9a-f]{{{2 * SLEEVE_KEY_BYTES}}}", re.ASCII)
# RFC 4303, section 2.1.
RESERVED_SPIS = 256


class ProtocolError(EngineError):
    """A peer sent what the protocol does not permit; the text is the reason that its connection is closed with."""


@dataclass(frozen=True, slots=True)
class Hello:
    """The first message of both ends. `connection` is random; `overlays` in order of preference."""

    name: str
    nickname: str
    uid: int
    connection: int
    overlays: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Keepalive:
    """Nothing but that the peer is there."""


@dataclass(frozen=True, slots=True)
class Records:
    """What the sender knows about peers."""

    peers: tuple[Peer, ...]


@dataclass(frozen=True, slots=True)
class HeartbeatReceived:
    """A valid heartbeat has arrived over this overlay."""

    overlay: str
    number: int


@dataclass(frozen=True, slots=True)
class ProbeReceived:
    """A probe of the fallback's path has arrived, a datagram of this size."""

    size: int


@dataclass(frozen=True, slots=True)
class Keys:
    """What the sender accepts from now on: the keys of the direction towards it, in hexadecimal digits.

    `spi` and `esp` are of its ESP security association, 0 and empty without one; `sleeve` is the key of the fallback,
    `generation` its number.
    """

    generation: int
    spi: int
    esp: str = field(repr=False)
    sleeve: str = field(repr=False)


def encode(message):
    """The bytes of a message."""
    value = {"type": _TYPES[type(message)], **_values(message)}
    body = json.dumps(value, separators=(",", ":"), default=_values).encode()
    if len(body) > MAX_MESSAGE:
        raise ValueError(f"a message of {len(body)} bytes; the limit is {MAX_MESSAGE}")
    return _LENGTH.pack(len(body)) + body


def _values(record):
    return {name: getattr(record, name) for name in record.__slots__}


class Decoder:
    """Bytes in pieces of any size to messages. `limit` is the size of the largest message accepted at present."""

    def __init__(self, limit=MAX_MESSAGE):
        self.limit = limit
        self._buffer = bytearray()

    def feed(self, data):
        """Take bytes that were received."""
        self._buffer += data

    def take(self, size):
        """The next `size` bytes as they are, or None until they are there."""
        if len(self._buffer) < size:
            return None
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken

    def message(self):
        """The next message, or None until it is there."""
        if len(self._buffer) < _LENGTH.size:
            return None
        (size,) = _LENGTH.unpack_from(self._buffer)
        if size > self.limit:
            raise ProtocolError(f"a message of {size} bytes; the limit is {self.limit}")
        if len(self._buffer) < _LENGTH.size + size:
            return None
        self.take(_LENGTH.size)
        return _parsed(self.take(size))


def _parsed(body):
    try:
        value = json.loads(body.decode())
    except (ValueError, RecursionError) as error:
        raise ProtocolError("a message is not JSON in UTF-8") from error
    if not isinstance(value, dict):
        raise ProtocolError("a message is not a JSON object")
    kind = value.pop("type", None)
    reader = _READERS.get(kind) if isinstance(kind, str) else None
    if reader is None:
        raise ProtocolError("a message is of an unknown type")
    return reader(value)


def _fields(value, what, *names):
    """The values of exactly these fields."""
    if not isinstance(value, dict) or value.keys() != set(names):
        raise ProtocolError(f"{what} has not exactly the fields {', '.join(names) or '(none)'}")
    return [value[name] for name in names]


def _text(value, pattern, what):
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise ProtocolError(f"{what} is malformed")
    return value


def _number(value, limit, what):
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < limit:
        raise ProtocolError(f"{what} is no integer from 0 to {limit - 1}")
    return value


def _hello(value):
    name, nickname, uid, connection, overlays = _fields(
        value, "hello", "name", "nickname", "uid", "connection", "overlays"
    )
    if not isinstance(overlays, list) or len(overlays) > 256 or not overlays:
        raise ProtocolError("overlays is no list of 1 to 256 names")
    overlays = tuple(_text(overlay, _OVERLAY, "an overlay") for overlay in overlays)
    if len(set(overlays)) != len(overlays):
        raise ProtocolError("overlays has a name twice")
    return Hello(
        _text(name, _NAME, "a peer's name"),
        _text(nickname, _NICKNAME, "a peer's nickname"),
        _number(uid, 1 << 64, "uid"),
        _number(connection, 1 << 64, "connection"),
        overlays,
    )


def _records(value):
    (peers,) = _fields(value, "records", "peers")
    if not isinstance(peers, list):
        raise ProtocolError("peers is no list")
    records = tuple(map(_peer, peers))
    if len({record.name for record in records}) != len(records):
        raise ProtocolError("peers has a name twice")
    return Records(records)


def _peer(value):
    name, nickname, uid, version, short_id, links = _fields(
        value, "a peer", "name", "nickname", "uid", "version", "short_id", "links"
    )
    name = _text(name, _NAME, "a peer's name")
    if not isinstance(links, dict) or not all(isinstance(established, bool) for established in links.values()):
        raise ProtocolError("links is no mapping of names to true or false")
    if name in links:
        raise ProtocolError("a peer has a link to itself")
    return Peer(
        name,
        _text(nickname, _NICKNAME, "a peer's nickname"),
        _number(uid, 1 << 64, "uid"),
        _number(version, 1 << 63, "version"),
        None if short_id is None else _number(short_id, SHORT_IDS, "short_id"),
        {_text(other, _NAME, "a peer's name"): established for other, established in links.items()},
    )


def _keepalive(value):
    _fields(value, "keepalive")
    return Keepalive()


def _heartbeat_received(value):
    overlay, number = _fields(value, "heartbeat", "overlay", "number")
    return HeartbeatReceived(_text(overlay, _OVERLAY, "an overlay"), _number(number, NUMBERS, "number"))


def _probe_received(value):
    (size,) = _fields(value, "probe", "size")
    return ProbeReceived(_number(size, 1 << 16, "size"))


def _keys(value):
    generation, spi, esp, sleeve = _fields(value, "keys", "generation", "spi", "esp", "sleeve")
    if bool(spi) != bool(esp):
        raise ProtocolError("spi without its key")
    if spi and spi in range(RESERVED_SPIS):
        raise ProtocolError(f"spi is below {RESERVED_SPIS}")
    return Keys(
        _number(generation, 1 << 32, "generation"),
        _number(spi, 1 << 32, "spi"),
        _text(esp, _ESP_KEY, "the key of ESP"),
        _text(sleeve, _SLEEVE_KEY, "the key of the fallback"),
    )


_TYPES = {
    Hello: "hello",
    Keepalive: "keepalive",
    Records: "records",
    HeartbeatReceived: "heartbeat",
    ProbeReceived: "probe",
    Keys: "keys",
}
_READERS = {
    "hello": _hello,
    "keepalive": _keepalive,
    "records": _records,
    "heartbeat": _heartbeat_received,
    "probe": _probe_received,
    "keys": _keys,
}
