# SPDX-License-Identifier: Apache-2.0
"""Detects when an uplink that is attached to a bridge gets an address or a route again.

ifupdown, systemd-networkd and NetworkManager configure the uplink, not the bridge: restarted, or slow at boot, they
put the host's addresses back on the uplink, where they do not work. Messages as in rtnetlink(7), read without pyroute2.
"""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import socket
import struct

from ..types.host_network import PROTOCOL
from .raw_messages import attributes, messages

_GROUPS = 0x10 | 0x40 | 0x100 | 0x400  # RTMGRP_IPV4_IFADDR, _IPV4_ROUTE, _IPV6_IFADDR, _IPV6_ROUTE
_NEW_ADDRESS, _NEW_ROUTE = 20, 24
_ADDRESS_GONE, _ROUTE_GONE = 21, 25
_HEADER = struct.Struct("=IHHII")
_ADDRESS = struct.Struct("=BBBBI")
_ROUTE = struct.Struct("=BBBBBBBBI")
_ATTRIBUTE = struct.Struct("=HH")
_OUTGOING = 4
_LINK_SCOPE = 253
_MAIN_TABLE, _UNICAST, _CLONED, _PERMANENT = 254, 1, 0x200, 0x80
_DESTINATION, _ADDRESS_PROTOCOL = 1, 11
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


class HostNetworkChanges:
    """Reports that the host got or lost an address, or a route of its main table. Usable with `select`."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, socket.NETLINK_ROUTE)
        self._socket.bind((0, _GROUPS))

    def fileno(self) -> int:
        """Return the descriptor for `select`."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def changed(self) -> bool:
        """Read the kernel's notifications; return whether one is about a change that Heddle did not make."""
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
            found |= any(_concerns_host_network(kind, body) for kind, body in messages(data))


def _concerns_host_network(kind: int, body: bytes) -> bool:
    if kind in (_NEW_ADDRESS, _ADDRESS_GONE) and len(body) >= _ADDRESS.size:
        # With an address, the kernel removes the routes that have it as their source, and does not report that. An
        # address with a limited lifetime is not the node's, and is reported each time that the lifetime is renewed.
        _family, _length, flags, scope, _index = _ADDRESS.unpack_from(body)
        own = attributes(body[_ADDRESS.size :]).get(_ADDRESS_PROTOCOL) == bytes([PROTOCOL])
        return scope < _LINK_SCOPE and not own and (kind == _ADDRESS_GONE or bool(flags & _PERMANENT))
    if kind not in (_NEW_ROUTE, _ROUTE_GONE) or len(body) < _ROUTE.size:
        return False
    _family, length, _source, _tos, table, protocol, _scope, route_type, flags = _ROUTE.unpack_from(body)
    if table != _MAIN_TABLE or protocol == PROTOCOL or route_type != _UNICAST or not length or flags & _CLONED:
        return False
    destination = attributes(body[_ROUTE.size :]).get(_DESTINATION, b"")
    # Each link with IPv6 has such a route.
    return not (len(destination) == 16 and ipaddress.IPv6Address(destination).is_link_local)
