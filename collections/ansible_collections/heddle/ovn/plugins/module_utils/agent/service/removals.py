# SPDX-License-Identifier: Apache-2.0
"""Detects when other software removes or changes Heddle's state in this host's kernel.

Restarting nftables flushes every table, an administrator flushes rules and routes, sysctl(8) sets forwarding back.
Messages as in rtnetlink(7) and Linux's `nfnetlink.h` and `netconf.h`, read without pyroute2.
"""

from __future__ import annotations

import contextlib

from ...netlink.monitor import KernelMonitor
from ...netlink.protocol.raw_messages import attributes
from ...types.host_network import PROTOCOL
from ...types.nftables_ruleset import OWN_TABLES
from ...types.routed_workloads import PROTOCOL as ROUTED

_NETFILTER = 12
# RTNLGRP_IPV4_IFADDR, _IPV4_ROUTE, _IPV4_RULE, _IPV6_IFADDR, _IPV6_ROUTE, _IPV6_RULE, _IPV4_NETCONF, _IPV6_NETCONF
_ROUTE_GROUPS = (5, 7, 8, 9, 11, 19, 24, 25)
_NFTABLES_GROUP, _NFTABLES_SUBSYSTEM = 7, 10
_ADDRESS_GONE, _ROUTE_GONE, _RULE_GONE, _NETCONF = 21, 25, 33, 80
# Sizes of ifaddrmsg, fib_rule_hdr, netconfmsg padded, nfgenmsg.
_ADDRESS, _RULE, _CONF, _NFTABLES = 8, 12, 4, 4
_IFA_PROTO, _FRA_PROTOCOL, _TABLE_NAME = 11, 21, 1
_ROUTE_PROTOCOL_AT = 5
_OWN_PROTOCOLS = (bytes([PROTOCOL]), bytes([ROUTED]))
_INTERFACE, _FORWARDING, _RP_FILTER = 1, 2, 3


class Removals:
    """Subscriptions to the kernel's notifications; `sources` are for `select`."""

    def __init__(self) -> None:
        self.sources = [KernelMonitor(_ROUTE_GROUPS, concerns_heddle)]
        # Without the privilege, or on a kernel without nftables, there are no notifications.
        with contextlib.suppress(OSError):
            self.sources.append(KernelMonitor((_NFTABLES_GROUP,), concerns_heddle, _NETFILTER))

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
    if kind == _ROUTE_GONE:
        return body[_ROUTE_PROTOCOL_AT : _ROUTE_PROTOCOL_AT + 1] in _OWN_PROTOCOLS
    if kind == _RULE_GONE:
        return attributes(body[_RULE:]).get(_FRA_PROTOCOL) in _OWN_PROTOCOLS
    if kind == _ADDRESS_GONE:
        return attributes(body[_ADDRESS:]).get(_IFA_PROTO) == bytes([PROTOCOL])
    if kind == _NETCONF:
        # A new device reports all settings, a change only the changed one.
        settings = attributes(body[_CONF:]).keys() - {_INTERFACE}
        return settings in ({_FORWARDING}, {_RP_FILTER})
    return False
