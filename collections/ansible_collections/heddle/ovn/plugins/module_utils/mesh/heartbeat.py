# SPDX-License-Identifier: Apache-2.0
"""Heartbeats of the fast datapath (weave, docs/fastdp.md, "Heartbeats via vxlan" and "PMTU Discovery").

A heartbeat is a frame of the largest size that the datapath may carry, so its arrival shows the path's MTU too. The
first valid one is acknowledged over the control channel.
"""

from __future__ import annotations

import struct

FAST_SECONDS = 0.5
SLOW_SECONDS = 10
TIMEOUT_SECONDS = 6 * SLOW_SECONDS
ETHERNET_HEADER = 14
_NO_MAC = bytes(12)
_FRAME = struct.Struct("!12sHQH")


def is_heartbeat(frame):
    """True for a frame whose MAC addresses are both zero."""
    return frame[:12] == _NO_MAC


def frame(uid, mtu):
    """The heartbeat of a connection."""
    size = ETHERNET_HEADER + mtu
    return _FRAME.pack(_NO_MAC, 0, uid, size).ljust(size, b"\0")


def problem(received, uid):
    """Why a heartbeat is not valid for the connection `uid`; None for a valid one."""
    if len(received) < _FRAME.size:
        return f"{len(received)} bytes; at least {_FRAME.size} are required"
    _macs, _type, sent_uid, size = _FRAME.unpack_from(received)
    if sent_uid != uid:
        return "of another connection"
    if size != len(received):
        return f"{len(received)} of {size} bytes"
    return None


class Heartbeats:
    """When to send on one forwarder, and whether it works. `now` is any clock that does not jump.

    `established` once the peer acknowledged; `healthy` while heartbeats of the peer arrive. A forwarder that is not
    healthy goes on sending, so that it is used again when its path is back.
    """

    def __init__(self, now):
        self.established = False
        self.healthy = True
        self._acknowledged_peer = False
        self._next = now
        self._silent_until = now + TIMEOUT_SECONDS

    def due(self, now):
        """True when a heartbeat has to be sent; counts it as sent."""
        if now >= self._silent_until:
            self.healthy = False
        if now < self._next:
            return False
        self._next = now + (SLOW_SECONDS if self.established or not self.healthy else FAST_SECONDS)
        return True

    def received(self, now):
        """A valid heartbeat has arrived: True when it has to be acknowledged, which is once."""
        self._silent_until = now + TIMEOUT_SECONDS
        self.healthy = True
        first = not self._acknowledged_peer
        self._acknowledged_peer = True
        return first

    def acknowledged(self, now):
        """The peer received a heartbeat."""
        if not self.established:
            self.established = True
            self._next = now + SLOW_SECONDS
