# SPDX-License-Identifier: Apache-2.0
"""Datagrams of the fallback overlay, "sleeve" (Weave's name), and frames in pieces.

Every datagram begins with its kind and the uid of the connection, random numbers that only the two ends know, so one of
another sender is recognized. A frame follows with the VXLAN identifier and the network that it would have in the fast
datapath; one that does not fit the path is sent in pieces, which the far end joins.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from .codec import ProtocolError

_HEADER = struct.Struct("!BQ")
_NUMBER = struct.Struct("!I")
_SIZE = struct.Struct("!H")
# Short ids of both peers and the network; then the number of the frame, the piece's place, and how many there are.
_FRAME = struct.Struct("!IH")
_PIECE = struct.Struct("!IBB")
_HEARTBEAT, _PROBE, _WHOLE, _PART = range(4)
OVERHEAD = _HEADER.size + _FRAME.size
_MAX_PIECES = 255
_MAX_PARTIAL = 64


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A heartbeat of this overlay."""

    number: int


@dataclass(frozen=True, slots=True)
class Probe:
    """A probe of the path: `size` is the length of its datagram."""

    size: int


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame of a workload, on its way between two peers."""

    vni: int
    network: int
    data: bytes


def heartbeat(uid, number):
    """The datagram of a heartbeat."""
    return _HEADER.pack(_HEARTBEAT, uid) + _NUMBER.pack(number)


def probe(uid, size):
    """A datagram of `size` bytes."""
    return (_HEADER.pack(_PROBE, uid) + _SIZE.pack(size)).ljust(size, b"\0")


class Sender:
    """Frames of one connection as datagrams."""

    def __init__(self, uid):
        self._uid = uid
        self._number = 0

    def datagrams(self, frame, size):
        """The datagrams of a frame, none longer than `size`; empty for a frame that is too long for any number."""
        if OVERHEAD + len(frame.data) <= size:
            return [_HEADER.pack(_WHOLE, self._uid) + _FRAME.pack(frame.vni, frame.network) + frame.data]
        room = size - OVERHEAD - _PIECE.size
        count = -(-len(frame.data) // room)
        if count > _MAX_PIECES:
            return []
        self._number = (self._number + 1) % (1 << 32)
        head = _HEADER.pack(_PART, self._uid) + _FRAME.pack(frame.vni, frame.network)
        return [
            head + _PIECE.pack(self._number, place, count) + frame.data[place * room : (place + 1) * room]
            for place in range(count)
        ]


class Receiver:
    """Datagrams of one connection as what they carry. Of frames whose pieces do not all come the oldest are dropped."""

    def __init__(self, uid):
        self._uid = uid
        self._partial = {}

    def read(self, data):
        """Return a Heartbeat, a Probe or a Frame, None for a piece; ProtocolError for any other datagram."""
        try:
            return self._read(data)
        except struct.error as error:
            raise ProtocolError("a datagram is too short") from error

    def _read(self, data):
        kind, uid = _HEADER.unpack_from(data)
        if uid != self._uid:
            raise ProtocolError("a datagram is of another connection")
        if kind == _HEARTBEAT and len(data) == _HEADER.size + _NUMBER.size:
            return Heartbeat(*_NUMBER.unpack_from(data, _HEADER.size))
        if kind == _PROBE:
            (size,) = _SIZE.unpack_from(data, _HEADER.size)
            if size != len(data):
                raise ProtocolError("a probe is shorter or longer than it says")
            return Probe(size)
        if kind not in (_WHOLE, _PART):
            raise ProtocolError("a datagram is of an unknown kind")
        vni, network = _FRAME.unpack_from(data, _HEADER.size)
        if kind == _WHOLE:
            return Frame(vni, network, data[OVERHEAD:])
        frame = self._joined(_PIECE.unpack_from(data, OVERHEAD), (vni, network), data[OVERHEAD + _PIECE.size :])
        return frame and Frame(vni, network, frame)

    def _joined(self, numbers, target, piece):
        number, place, count = numbers
        if place >= count:
            raise ProtocolError("a piece of a frame is beyond its end")
        key = number, count, target
        pieces = self._partial.setdefault(key, {})
        pieces[place] = piece
        if len(pieces) == count:
            del self._partial[key]
            return b"".join(pieces[one] for one in range(count))
        if len(self._partial) > _MAX_PARTIAL:
            del self._partial[next(iter(self._partial))]
        return None
