# SPDX-License-Identifier: Apache-2.0
"""Detects when other software removes or changes Heddle's state in this host's kernel.

Restarting nftables flushes every table, an administrator flushes rules and routes, sysctl(8) sets forwarding back.
Messages as in rtnetlink(7) and Linux's `nfnetlink.h` and `netconf.h`, read without pyroute2.
"""

from __future__ import annotations

import contextlib

from ...netlink.monitor import KernelMonitor
from ...netlink.protocol.raw_messages import NETLINK_NETFILTER, attributes
from ...netlink.protocol.rtnetlink import (
    FRA_PROTOCOL,
    IFA_PROTO,
    IFADDRMSG,
    RTM_DELADDR,
    RTM_DELROUTE,
    RTM_DELRULE,
    RTM_NEWNETCONF,
    RTMSG,
    RTNLGRP_IPV4_IFADDR,
    RTNLGRP_IPV4_NETCONF,
    RTNLGRP_IPV4_ROUTE,
    RTNLGRP_IPV4_RULE,
    RTNLGRP_IPV6_IFADDR,
    RTNLGRP_IPV6_NETCONF,
    RTNLGRP_IPV6_ROUTE,
    RTNLGRP_IPV6_RULE,
)
from ...types.host_network import PROTOCOL
from ...types.nftables_ruleset import OWN_TABLES
from ...types.routed_workloads import PROTOCOL as ROUTED

_ROUTE_GROUPS = (
    RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV4_RULE, RTNLGRP_IPV4_NETCONF,
    RTNLGRP_IPV6_IFADDR, RTNLGRP_IPV6_ROUTE, RTNLGRP_IPV6_RULE, RTNLGRP_IPV6_NETCONF,
)  # fmt: skip
_NFTABLES_GROUP, _NFTABLES_SUBSYSTEM = 7, 10
# Sizes of netconfmsg padded, and nfgenmsg.
_CONF, _NFTABLES = 4, 4
_TABLE_NAME = 1
_ROUTE_PROTOCOL_AT = 5
_OWN_PROTOCOLS = (bytes([PROTOCOL]), bytes([ROUTED]))
_INTERFACE, _FORWARDING, _RP_FILTER = 1, 2, 3


class Removals:
    """Subscriptions to the kernel's notifications; `sources` are for `select`."""

    def __init__(self) -> None:
        self.sources = [KernelMonitor(_ROUTE_GROUPS, concerns_heddle)]
        # Without the privilege, or on a kernel without nftables, there are no notifications.
        with contextlib.suppress(OSError):
            self.sources.append(KernelMonitor((_NFTABLES_GROUP,), concerns_heddle, NETLINK_NETFILTER))

    def close(self) -> None:
        """Close the sockets."""
        for source in self.sources:
            source.close()

    def changed(self) -> bool:
        """Read the notifications; return whether state of Heddle's may have been removed or changed."""
        # All are read, whatever the first one returned.
        return True in {source.changed() for source in self.sources}


def concerns_heddle(kind: int, body: bytes) -> bool:
    """Return whether a netlink message is about something with Heddle's mark, or a setting of a device."""
    if kind >> 8 == _NFTABLES_SUBSYSTEM:
        name = attributes(body[_NFTABLES:]).get(_TABLE_NAME, b"")
        return name.rstrip(b"\0").decode(errors="replace") in OWN_TABLES
    if kind == RTM_DELROUTE:
        return body[_ROUTE_PROTOCOL_AT : _ROUTE_PROTOCOL_AT + 1] in _OWN_PROTOCOLS
    if kind == RTM_DELRULE:
        return attributes(body[RTMSG.size :]).get(FRA_PROTOCOL) in _OWN_PROTOCOLS
    if kind == RTM_DELADDR:
        return attributes(body[IFADDRMSG.size :]).get(IFA_PROTO) == bytes([PROTOCOL])
    if kind == RTM_NEWNETCONF:
        # A new device reports all settings, a change only the changed one.
        settings = attributes(body[_CONF:]).keys() - {_INTERFACE}
        return settings in ({_FORWARDING}, {_RP_FILTER})
    return False
