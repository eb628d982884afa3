# SPDX-License-Identifier: Apache-2.0
"""Reports changes that other software makes in the kernel: of attached uplinks, and of the host's own network.

ifupdown, systemd-networkd and NetworkManager configure the uplink, not the bridge: restarted, or slow at boot, they
put the host's addresses back on the uplink, where they do not work. Messages as in rtnetlink(7), read without pyroute2.
"""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import socket
import struct
from collections.abc import Callable

from ..types.host_network import PROTOCOL
from .protocol.raw_messages import attributes, messages

_SOL_NETLINK, _ADD_MEMBERSHIP = 270, 1
# linux/rtnetlink.h: RTNLGRP_IPV4_IFADDR, _IPV4_ROUTE, _IPV6_IFADDR, _IPV6_ROUTE
_GROUPS = (5, 7, 9, 11)
_NEW_ADDRESS, _ADDRESS_GONE, _NEW_ROUTE, _ROUTE_GONE = 20, 21, 24, 25
_ADDRESS = struct.Struct("=BBBBI")
_ROUTE = struct.Struct("=BBBBBBBBI")
_LINK_SCOPE = 253
_MAIN_TABLE, _UNICAST, _CLONED, _PERMANENT = 254, 1, 0x200, 0x80
_DESTINATION, _OUTGOING, _ADDRESS_PROTOCOL = 1, 4, 11
# Made by the kernel itself, or from router advertisements: these are not migrated.
_NOT_MOVED = (2, 9)


class KernelMonitor:
    """A subscription to notifications of the kernel (netlink(7)). Usable with `select`.

    `groups` are multicast groups of the netlink family `protocol`. `concerns` gets the type and the body of a message
    and returns whether it counts. Raises OSError when the kernel refuses a group.
    """

    def __init__(
        self, groups: tuple[int, ...], concerns: Callable[[int, bytes], bool], protocol: int = socket.NETLINK_ROUTE
    ) -> None:
        self._concerns = concerns
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, protocol)
        try:
            self._socket.bind((0, 0))
            for group in groups:
                self._socket.setsockopt(_SOL_NETLINK, _ADD_MEMBERSHIP, group)
        except OSError:
            self._socket.close()
            raise

    def fileno(self) -> int:
        """Return the descriptor for `select`."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def changed(self) -> bool:
        """Read all notifications without waiting; return whether one counts, or some were lost."""
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
            found |= any(self._concerns(kind, body) for kind, body in messages(data))


class UplinkMonitor(KernelMonitor):
    """Reports that one of the uplinks `names` got an address or a route."""

    def __init__(self, names: frozenset[str] = frozenset()) -> None:
        self.names = names
        self._indexes: set[int] = set()
        super().__init__(_GROUPS, lambda kind, body: configured_interface(kind, body) in self._indexes)

    def changed(self) -> bool:
        """As `KernelMonitor.changed`; uplinks that do not exist are ignored."""
        self._indexes.clear()
        for name in self.names:
            with contextlib.suppress(OSError):
                self._indexes.add(socket.if_nametoindex(name))
        return super().changed()


def configured_interface(kind: int, body: bytes) -> int | None:
    """Return the index of the link that got an address or a route which would be migrated, by this message."""
    if kind == _NEW_ADDRESS and len(body) >= _ADDRESS.size:
        *_rest, scope, index = _ADDRESS.unpack_from(body)
        return index if scope < _LINK_SCOPE else None
    if kind == _NEW_ROUTE and len(body) >= _ROUTE.size and _ROUTE.unpack_from(body)[5] not in _NOT_MOVED:
        outgoing = attributes(body[_ROUTE.size :]).get(_OUTGOING)
        return struct.unpack("=I", outgoing)[0] if outgoing else None
    return None


def host_network_monitor() -> KernelMonitor:
    """Return what reports that the host got or lost an address, or a route of its main table, not made by Heddle."""
    return KernelMonitor(_GROUPS, _concerns_host_network)


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
