# SPDX-License-Identifier: Apache-2.0
"""Reads and writes routes and rules of whole tables as messages of rtnetlink(7). It decides nothing."""

from __future__ import annotations

import errno
import socket
import struct
from dataclasses import dataclass

from ..kernel import read_whole
from .messages import FAMILIES
from .raw_messages import attributes
from .raw_socket import CREATE, EXCLUSIVE, REPLACE, RawSocket, attribute

# linux/rtnetlink.h, fib_rules.h
_NEW_ROUTE, _DELETE_ROUTE, _GET_ROUTE, _NEW_RULE, _DELETE_RULE, _GET_RULE = 24, 25, 26, 32, 33, 34
_ROUTE = struct.Struct("=BBBBBBBBI")
_NUMBER = struct.Struct("=I")
_RTA_DST, _RTA_OIF, _RTA_PRIORITY = 1, 4, 6
_FRA_DST, _FRA_IIFNAME, _FRA_PRIORITY, _FRA_FWMARK, _FRA_TABLE, _FRA_FWMASK, _FRA_PROTOCOL = 1, 3, 6, 10, 15, 16, 21
_ALL_BITS = 0xFFFFFFFF
UNICAST, UNREACHABLE = 1, 7
GLOBAL_SCOPE, LINK_SCOPE = 0, 253
_TO_TABLE = 1
_CLONED = 0x200
_ANY = {socket.AF_INET: "0.0.0.0", socket.AF_INET6: "::"}


@dataclass(frozen=True, order=True)
class TableRoute:
    """A route without a gateway: `to` a prefix, `device` "" where it has none."""

    to: str
    device: str
    kind: int = UNICAST
    scope: int = GLOBAL_SCOPE
    metric: int = 0
    protocol: int = 0

    @property
    def family(self) -> int:
        """Return 4 or 6."""
        return 6 if ":" in self.to else 4

    def __str__(self) -> str:
        return f"{'' if self.kind == UNICAST else 'unreachable '}{self.to}"


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
                messages = netlink.dump(_GET_ROUTE, _ROUTE.pack(family, 0, 0, 0, table, 0, 0, 0, 0))
            except OSError as error:
                # There is no table until it has a route.
                if error.errno != errno.ENOENT:
                    raise
                continue
            found += [_route(message, family, names) for message in messages if not _flags(message) & _CLONED]
    return found


def _flags(message: bytes) -> int:
    return _ROUTE.unpack_from(message)[8]


def _route(message: bytes, family: int, names: dict[int, str]) -> TableRoute:
    _family, length, _source, _tos, _table, protocol, scope, kind, *_rest = _ROUTE.unpack_from(message)
    values = attributes(message[_ROUTE.size :])
    to = socket.inet_ntop(family, values[_RTA_DST]) if _RTA_DST in values else _ANY[family]
    index = _NUMBER.unpack(values[_RTA_OIF])[0] if _RTA_OIF in values else 0
    # The kernel reports `lo` for IPv6 routes without a device.
    device = names.get(index, "") if kind == UNICAST else ""
    metric = _NUMBER.unpack(values[_RTA_PRIORITY])[0] if _RTA_PRIORITY in values else 0
    return TableRoute(f"{to}/{length}", device, kind, scope, metric, protocol)


def write_route(table: int, route: TableRoute, *, remove: bool) -> None:
    """Add a route or replace that of the same prefix and metric, or remove it; a missing one is no error then."""
    text, _slash, length = route.to.partition("/")
    family = FAMILIES[route.family]
    message = _ROUTE.pack(family, int(length), 0, 0, table, route.protocol, route.scope, route.kind, 0)
    message += attribute(_RTA_DST, socket.inet_pton(family, text)) if int(length) else b""
    message += attribute(_RTA_PRIORITY, route.metric) if route.metric else b""
    message += attribute(_RTA_OIF, socket.if_nametoindex(route.device)) if route.device else b""
    with RawSocket() as netlink:
        try:
            netlink.request((_DELETE_ROUTE, 0, message) if remove else (_NEW_ROUTE, CREATE | REPLACE, message))
        except OSError as error:
            if not remove or error.errno != errno.ESRCH:
                raise


@read_whole
def read_rules(protocol: int) -> list[TableRule]:
    """Return the rules of the current network namespace that carry a protocol."""
    found = []
    with RawSocket() as netlink:
        for version, family in FAMILIES.items():
            for message in netlink.dump(_GET_RULE, _ROUTE.pack(family, 0, 0, 0, 0, 0, 0, 0, 0)):
                values = attributes(message[_ROUTE.size :])
                if values.get(_FRA_PROTOCOL) == bytes([protocol]):
                    priority = _NUMBER.unpack(values.get(_FRA_PRIORITY, bytes(4)))[0]
                    table = _NUMBER.unpack(values[_FRA_TABLE])[0] if _FRA_TABLE in values else message[4]
                    to = f"{socket.inet_ntop(family, values[_FRA_DST])}/{message[1]}" if _FRA_DST in values else ""
                    iif = values.get(_FRA_IIFNAME, b"").rstrip(b"\0").decode()
                    fwmark = _NUMBER.unpack(values.get(_FRA_FWMARK, bytes(4)))[0]
                    found.append(TableRule(version, priority, table, to, iif, fwmark))
    return found


def write_rule(rule: TableRule, protocol: int, *, remove: bool) -> None:
    """Add a rule, or remove it; a missing one is no error then."""
    prefix, _slash, length = rule.to.partition("/")
    message = _ROUTE.pack(FAMILIES[rule.family], int(length or 0), 0, 0, rule.table, 0, 0, _TO_TABLE, 0)
    message += attribute(_FRA_DST, socket.inet_pton(FAMILIES[rule.family], prefix)) if prefix else b""
    message += attribute(_FRA_IIFNAME, rule.iif) if rule.iif else b""
    if rule.fwmark:
        message += attribute(_FRA_FWMARK, rule.fwmark) + attribute(_FRA_FWMASK, _ALL_BITS)
    message += attribute(_FRA_PRIORITY, rule.priority) + attribute(_FRA_PROTOCOL, bytes([protocol]))
    with RawSocket() as netlink:
        try:
            netlink.request((_DELETE_RULE, 0, message) if remove else (_NEW_RULE, CREATE | EXCLUSIVE, message))
        except OSError as error:
            if error.errno != (errno.ENOENT if remove else errno.EEXIST):
                raise
