# SPDX-License-Identifier: Apache-2.0
"""Detects when an uplink that is attached to a bridge gets an address or a route again.

ifupdown, systemd-networkd and NetworkManager configure the uplink, not the bridge: restarted, or slow at boot, they
put the host's addresses back on the uplink, where they do not work. Messages as in rtnetlink(7), read without pyroute2.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import struct

_GROUPS = 0x10 | 0x40 | 0x100 | 0x400  # RTMGRP_IPV4_IFADDR, _IPV4_ROUTE, _IPV6_IFADDR, _IPV6_ROUTE
_NEW_ADDRESS, _NEW_ROUTE = 20, 24
_HEADER = struct.Struct("=IHHII")
_ADDRESS = struct.Struct("=BBBBI")
_ROUTE = struct.Struct("=BBBBBBBBI")
_ATTRIBUTE = struct.Struct("=HH")
_OUTGOING = 4
_LINK_SCOPE = 253
# Made by the kernel itself, or from router advertisements: these are not migrated.
_NOT_MOVED = (2, 9)


class UplinkMonitor:
    """A netlink subscription; `names` are the attached uplinks. Usable with `select`."""

    def __init__(self, names: frozenset[str] = frozenset()) -> None:
        self.names = names
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, socket.NETLINK_ROUTE)
        self._socket.bind((0, _GROUPS))

    def fileno(self) -> int:
        """Return the descriptor for `select`."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def changed(self) -> bool:
        """Read the kernel's notifications; return whether one of the uplinks got an address or a route."""
        indexes = set()
        for name in self.names:
            with contextlib.suppress(OSError):
                indexes.add(socket.if_nametoindex(name))
        found = False
        while True:
            try:
                data = self._socket.recv(1 << 16)
            except BlockingIOError:
                return found
            except OSError as error:
                # The receive buffer overflowed (ENOBUFS): messages were lost.
                if error.errno != errno.ENOBUFS:
                    raise
                found = True
                continue
            found |= any(index in indexes for index in changed_interfaces(data))


def changed_interfaces(data: bytes) -> list[int]:
    """Return the indexes of links that got an address or a route, from netlink messages."""
    found = []
    while len(data) >= _HEADER.size:
        length, kind, *_rest = _HEADER.unpack_from(data)
        if length < _HEADER.size:
            break
        body = data[_HEADER.size : length]
        data = data[(length + 3) & ~3 :]
        if kind == _NEW_ADDRESS:
            *_rest, scope, index = _ADDRESS.unpack_from(body)
            if scope < _LINK_SCOPE:
                found.append(index)
        elif kind == _NEW_ROUTE and _ROUTE.unpack_from(body)[5] not in _NOT_MOVED:
            found += _outgoing(body[_ROUTE.size :])
    return found


def _outgoing(attributes: bytes) -> list[int]:
    while len(attributes) >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(attributes)
        if length < _ATTRIBUTE.size:
            break
        if kind == _OUTGOING:
            return [struct.unpack_from("=I", attributes, _ATTRIBUTE.size)[0]]
        attributes = attributes[(length + 3) & ~3 :]
    return []
