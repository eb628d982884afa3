# SPDX-License-Identifier: Apache-2.0
"""Heartbeats of an overlay (weave, docs/fastdp.md, "Heartbeats via vxlan" and "PMTU Discovery").

Those of the fast datapath are frames of the largest size that it may carry, so their arrival shows the path's MTU too.
Weave acknowledges the first one only and sends every 10 s after that. Here each has a number and is acknowledged over
the control channel: that gives the time of a round trip, and shows within a second that a path has failed. To a
neighbour that no frames of workloads go to there are fewer: each costs processor time at both ends, and nothing is
lost.
"""

from __future__ import annotations

import struct

# Between the heartbeats of a connection while frames of workloads go to the neighbour, and while none do.
# Three that are lost in a row are known before TCP repeats for the second time, 0.6 s after a loss (RFC 6298, with the
# 0.2 s of Linux as the first timeout): after that it would wait for 0.8 s more.
INTERVAL_SECONDS, IDLE_INTERVAL_SECONDS = 0.1, 1.0
NUMBERS = 1 << 32
ETHERNET_HEADER = 14
_NO_MAC = bytes(12)
_FRAME = struct.Struct("!12sHQHI")
# Heartbeats whose acknowledgement is still waited for, and the weight of a new round trip in the average (RFC 6298).
_OUTSTANDING, _WEIGHT = 64, 1 / 8


def is_heartbeat(frame):
    """True for a frame whose MAC addresses are both zero."""
    return frame[:12] == _NO_MAC


def frame(uid, mtu, number):
    """A heartbeat of the fast datapath for a connection."""
    size = ETHERNET_HEADER + mtu
    return _FRAME.pack(_NO_MAC, 0, uid, size, number).ljust(size, b"\0")


def number_of(received):
    """The number of a valid heartbeat."""
    return _FRAME.unpack_from(received)[-1]


def problem(received, uid):
    """Why a heartbeat is not valid for the connection `uid`; None for a valid one."""
    if len(received) < _FRAME.size:
        return f"{len(received)} bytes; at least {_FRAME.size} are required"
    _macs, _type, sent_uid, size, _number = _FRAME.unpack_from(received)
    if sent_uid != uid:
        return "of another connection"
    if size != len(received):
        return f"{len(received)} of {size} bytes"
    return None


class Heartbeats:
    """What was sent over one overlay, and what came back. `now` is any clock that does not jump.

    `latest` is the number of the latest heartbeat that the peer acknowledged, `confirmed` when it was sent, `heard`
    when the latest one of the peer arrived, `heard_number` its number, `rtt` the average round trip in seconds; None
    before the first. `lost` counts those without an answer.
    """

    def __init__(self):
        self.latest = None
        self.confirmed = None
        self.heard = None
        self.heard_number = None
        self.rtt = None
        self.lost = 0
        self._sent = {}

    def sent(self, number, now):
        """A heartbeat was sent."""
        self._sent[number] = now
        if len(self._sent) > _OUTSTANDING:
            del self._sent[next(iter(self._sent))]
            self.lost += 1

    def acknowledged(self, number, now):
        """The peer received a heartbeat. Earlier ones are lost: neither an overlay nor TCP changes the order."""
        sent = self._sent.pop(number, None)
        if sent is None:
            return
        earlier = [one for one, when in self._sent.items() if when < sent]
        for one in earlier:
            del self._sent[one]
        self.lost += len(earlier)
        self.latest, self.confirmed = number, sent
        self.rtt = now - sent if self.rtt is None else self.rtt + _WEIGHT * (now - sent - self.rtt)
