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
from collections.abc import Callable

from ..types.host_network import PROTOCOL
from .protocol.raw_messages import SOL_NETLINK, attributes, messages
from .protocol.rtnetlink import (
    IFA_F_PERMANENT,
    IFA_PROTO,
    IFADDRMSG,
    RT_SCOPE_LINK,
    RT_TABLE_MAIN,
    RTA_DST,
    RTA_OIF,
    RTM_DELADDR,
    RTM_DELROUTE,
    RTM_F_CLONED,
    RTM_NEWADDR,
    RTM_NEWROUTE,
    RTMSG,
    RTN_UNICAST,
    RTNLGRP_IPV4_IFADDR,
    RTNLGRP_IPV4_ROUTE,
    RTNLGRP_IPV6_IFADDR,
    RTNLGRP_IPV6_ROUTE,
    RTPROT_KERNEL,
    RTPROT_RA,
    U32,
)

_ADD_MEMBERSHIP = 1  # NETLINK_ADD_MEMBERSHIP (linux/netlink.h)
_GROUPS = (RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV6_IFADDR, RTNLGRP_IPV6_ROUTE)
# Made by the kernel itself, or from router advertisements: these are not migrated.
_NOT_MOVED = (RTPROT_KERNEL, RTPROT_RA)


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
                self._socket.setsockopt(SOL_NETLINK, _ADD_MEMBERSHIP, group)
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
    if kind == RTM_NEWADDR and len(body) >= IFADDRMSG.size:
        *_rest, scope, index = IFADDRMSG.unpack_from(body)
        return index if scope < RT_SCOPE_LINK else None
    if kind == RTM_NEWROUTE and len(body) >= RTMSG.size and RTMSG.unpack_from(body)[5] not in _NOT_MOVED:
        outgoing = attributes(body[RTMSG.size :]).get(RTA_OIF)
        return U32.unpack(outgoing)[0] if outgoing else None
    return None


def host_network_monitor() -> KernelMonitor:
    """Return what reports that the host got or lost an address, or a route of its main table, not made by Heddle."""
    return KernelMonitor(_GROUPS, _concerns_host_network)


def _concerns_host_network(kind: int, body: bytes) -> bool:
    if kind in (RTM_NEWADDR, RTM_DELADDR) and len(body) >= IFADDRMSG.size:
        # With an address, the kernel removes the routes that have it as their source, and does not report that. An
        # address with a limited lifetime is not the node's, and is reported each time that the lifetime is renewed.
        _family, _length, flags, scope, _index = IFADDRMSG.unpack_from(body)
        own = attributes(body[IFADDRMSG.size :]).get(IFA_PROTO) == bytes([PROTOCOL])
        return scope < RT_SCOPE_LINK and not own and (kind == RTM_DELADDR or bool(flags & IFA_F_PERMANENT))
    if kind not in (RTM_NEWROUTE, RTM_DELROUTE) or len(body) < RTMSG.size:
        return False
    _family, length, _source, _tos, table, protocol, _scope, route_type, flags = RTMSG.unpack_from(body)
    if table != RT_TABLE_MAIN or protocol == PROTOCOL or route_type != RTN_UNICAST:
        return False
    if not length or flags & RTM_F_CLONED:
        return False
    destination = attributes(body[RTMSG.size :]).get(RTA_DST, b"")
    # Each link with IPv6 has such a route.
    return not (len(destination) == 16 and ipaddress.IPv6Address(destination).is_link_local)
