# SPDX-License-Identifier: Apache-2.0
"""Reads and writes routes and rules of whole tables as messages of rtnetlink(7). It decides nothing."""

from __future__ import annotations

import errno
import socket
from dataclasses import dataclass

from ...types.host_network import WHOLE_MARK
from ..kernel import read_whole
from .messages import FAMILIES
from .raw_messages import attributes, decoded
from .raw_socket import CREATE, EXCLUSIVE, REPLACE, RawSocket, attribute
from .rtnetlink import (
    FR_ACT_TO_TBL,
    FRA_DST,
    FRA_FWMARK,
    FRA_FWMASK,
    FRA_IIFNAME,
    FRA_PRIORITY,
    FRA_PROTOCOL,
    FRA_TABLE,
    RT_SCOPE_UNIVERSE,
    RTA_DST,
    RTA_OIF,
    RTA_PRIORITY,
    RTM_DELROUTE,
    RTM_DELRULE,
    RTM_F_CLONED,
    RTM_GETROUTE,
    RTM_GETRULE,
    RTM_NEWROUTE,
    RTM_NEWRULE,
    RTMSG,
    RTN_UNICAST,
    U32,
)

_ANY = {socket.AF_INET: "0.0.0.0", socket.AF_INET6: "::"}


@dataclass(frozen=True, order=True)
class TableRoute:
    """A route without a gateway: `to` a prefix, `device` "" where it has none."""

    to: str
    device: str
    kind: int = RTN_UNICAST
    scope: int = RT_SCOPE_UNIVERSE
    metric: int = 0
    protocol: int = 0

    @property
    def family(self) -> int:
        """Return 4 or 6."""
        return 6 if ":" in self.to else 4

    def __str__(self) -> str:
        return f"{'' if self.kind == RTN_UNICAST else 'unreachable '}{self.to}"


@dataclass(frozen=True, order=True)
class TableRule:
    """A rule that looks up a table for the packets of a family to a prefix, from a link, with a mark, or all."""

    family: int
    priority: int
    table: int
    to: str = ""
    iif: str = ""
    fwmark: int = 0


@read_whole
def read_table(table: int) -> list[TableRoute]:
    """Return the routes of a table of the current network namespace, of both families."""
    found = []
    names = dict(socket.if_nameindex())
    with RawSocket() as netlink:
        for family in FAMILIES.values():
            try:
                messages = netlink.dump(RTM_GETROUTE, RTMSG.pack(family, 0, 0, 0, table, 0, 0, 0, 0))
            except OSError as error:
                # There is no table until it has a route.
                if error.errno != errno.ENOENT:
                    raise
                continue
            found += [_route(message, family, names) for message in messages if not _flags(message) & RTM_F_CLONED]
    return found


def _flags(message: bytes) -> int:
    return RTMSG.unpack_from(message)[8]


def _route(message: bytes, family: int, names: dict[int, str]) -> TableRoute:
    _family, length, _source, _tos, _table, protocol, scope, kind, *_rest = RTMSG.unpack_from(message)
    values = attributes(message[RTMSG.size :])
    to = socket.inet_ntop(family, values[RTA_DST]) if RTA_DST in values else _ANY[family]
    index = U32.unpack(values[RTA_OIF])[0] if RTA_OIF in values else 0
    # The kernel reports `lo` for IPv6 routes without a device.
    device = names.get(index, "") if kind == RTN_UNICAST else ""
    metric = U32.unpack(values[RTA_PRIORITY])[0] if RTA_PRIORITY in values else 0
    return TableRoute(f"{to}/{length}", device, kind, scope, metric, protocol)


def write_route(table: int, route: TableRoute, *, remove: bool) -> None:
    """Add a route or replace that of the same prefix and metric, or remove it; a missing one is no error then."""
    text, _slash, length = route.to.partition("/")
    family = FAMILIES[route.family]
    message = RTMSG.pack(family, int(length), 0, 0, table, route.protocol, route.scope, route.kind, 0)
    message += attribute(RTA_DST, socket.inet_pton(family, text)) if int(length) else b""
    message += attribute(RTA_PRIORITY, route.metric) if route.metric else b""
    message += attribute(RTA_OIF, socket.if_nametoindex(route.device)) if route.device else b""
    with RawSocket() as netlink:
        try:
            netlink.request((RTM_DELROUTE, 0, message) if remove else (RTM_NEWROUTE, CREATE | REPLACE, message))
        except OSError as error:
            if not remove or error.errno != errno.ESRCH:
                raise


@read_whole
def read_rules(protocol: int) -> list[TableRule]:
    """Return the rules of the current network namespace that carry a protocol."""
    found = []
    with RawSocket() as netlink:
        for version, family in FAMILIES.items():
            for message in netlink.dump(RTM_GETRULE, RTMSG.pack(family, 0, 0, 0, 0, 0, 0, 0, 0)):
                values = attributes(message[RTMSG.size :])
                if values.get(FRA_PROTOCOL) == bytes([protocol]):
                    priority = U32.unpack(values.get(FRA_PRIORITY, bytes(4)))[0]
                    table = U32.unpack(values[FRA_TABLE])[0] if FRA_TABLE in values else message[4]
                    to = f"{socket.inet_ntop(family, values[FRA_DST])}/{message[1]}" if FRA_DST in values else ""
                    iif = decoded(values.get(FRA_IIFNAME, b""))
                    fwmark = U32.unpack(values.get(FRA_FWMARK, bytes(4)))[0]
                    found.append(TableRule(version, priority, table, to, iif, fwmark))
    return found


def write_rule(rule: TableRule, protocol: int, *, remove: bool) -> None:
    """Add a rule, or remove it; a missing one is no error then."""
    prefix, _slash, length = rule.to.partition("/")
    message = RTMSG.pack(FAMILIES[rule.family], int(length or 0), 0, 0, rule.table, 0, 0, FR_ACT_TO_TBL, 0)
    message += attribute(FRA_DST, socket.inet_pton(FAMILIES[rule.family], prefix)) if prefix else b""
    message += attribute(FRA_IIFNAME, rule.iif) if rule.iif else b""
    if rule.fwmark:
        message += attribute(FRA_FWMARK, rule.fwmark) + attribute(FRA_FWMASK, WHOLE_MARK)
    message += attribute(FRA_PRIORITY, rule.priority) + attribute(FRA_PROTOCOL, bytes([protocol]))
    with RawSocket() as netlink:
        try:
            netlink.request((RTM_DELRULE, 0, message) if remove else (RTM_NEWRULE, CREATE | EXCLUSIVE, message))
        except OSError as error:
            if error.errno != (errno.ENOENT if remove else errno.EEXIST):
                raise
