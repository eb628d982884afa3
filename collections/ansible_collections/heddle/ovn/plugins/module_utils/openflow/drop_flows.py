# SPDX-License-Identifier: Apache-2.0
"""Flows that drop packets, and frames that leave by a port, as OpenFlow messages over one connection.

Connections wait for these while addresses move, and each program that is started for one takes longer than all of them
do here. A flow without instructions drops; only the matches that such flows of Heddle have are known. Messages are
those of the OpenFlow Switch Specification 1.4.0: 7.2.3 "Flow Match Structures", 7.3.4.2 "Modify Flow Entry", 7.3.5.2
"Individual Flow Statistics", 7.3.7 "Packet-Out"; the mark of a packet is Open vSwitch's own field (ovs-fields(7)).
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..types.openflow_flow import OWN_COOKIES, Flow
from .management_connection import Connection
from .parser import resolved

_PACKET_OUT, _FLOW_MOD, _MULTIPART_REQUEST, _FLOW_STATISTICS = 13, 14, 18, 1
_ADD, _DELETE_STRICT = 0, 4
_ANY, _CONTROLLER, _LOCAL, _NO_BUFFER = 0xFFFFFFFF, 0xFFFFFFFD, 0xFFFFFFFE, 0xFFFFFFFF
_ALL_BITS = 0xFFFFFFFFFFFFFFFF
# Cookie, its mask, table, command, timeouts, priority, buffer, out port, out group, flags, importance.
_MODIFICATION = struct.Struct("!QQBBHHHIIIHH")
# Multipart type and flags; table, out port, out group, cookie and its mask.
_REQUEST = struct.Struct("!HH4xB3xII4xQQ")
_MULTIPART_HEAD = struct.Struct("!HH4x")
# Length, table, duration, priority, timeouts, flags, importance, cookie, counters.
_STATISTICS = struct.Struct("!HBxIIHHHHH2xQQQ")
# In port, length of the actions; an output action.
_OUT, _OUTPUT = struct.Struct("!IIH6x"), struct.Struct("!HHIH6x")

_OXM = 1
_MATCH, _FIELD = struct.Struct("!HH"), struct.Struct("!HBB")
_BASIC, _NICIRA = 0x8000, 0x0001
_ARP, _IPV4, _IPV6, _ICMPV6 = 0x0806, 0x0800, 0x86DD, 58
# Field -> class, number, size in bytes; in the order in which a match has them: what others require comes first.
_FIELDS = {
    "in_port": (_BASIC, 0, 4),
    "pkt_mark": (_NICIRA, 33, 4),
    "dl_src": (_BASIC, 4, 6),
    "dl_type": (_BASIC, 5, 2),
    "nw_proto": (_BASIC, 10, 1),
    "nw_src": (_BASIC, 11, 4),
    "arp_spa": (_BASIC, 22, 4),
    "ipv6_src": (_BASIC, 26, 16),
    "icmp_type": (_BASIC, 29, 1),
    "icmp_code": (_BASIC, 30, 1),
    "nd_target": (_BASIC, 31, 16),
}
_SHORTHANDS = {
    "arp": {"dl_type": _ARP},
    "ip": {"dl_type": _IPV4},
    "ipv6": {"dl_type": _IPV6},
    "icmp6": {"dl_type": _IPV6, "nw_proto": _ICMPV6},
}


@dataclass(frozen=True, slots=True)
class Drop:
    """A flow that drops; `fields` are the fields of its match as sent."""

    flow: Flow
    fields: tuple[bytes, ...]

    @property
    def match(self) -> bytes:
        """The match with its head, filled up to a multiple of eight bytes."""
        fields = b"".join(self.fields)
        return _filled_up(_MATCH.pack(_OXM, _MATCH.size + len(fields)) + fields)


def encoded(flow: Flow, ports: Mapping[str, str]) -> Drop | None:
    """Return a flow as it is sent; None for one that does more than to drop, or has a match that is unknown here.

    `ports` has the OpenFlow number of each port, or `LOCAL`, by name.
    """
    if flow.actions != "drop":
        return None
    values: dict[str, int] = {}
    try:
        for part in resolved(flow.match, ports).split(","):
            name, equals, text = part.partition("=")
            values |= {name: _number(name, text)} if equals else _SHORTHANDS[name]
        fields = tuple(
            _FIELD.pack(kind, number << 1, size) + values.pop(name).to_bytes(size, "big")
            for name, (kind, number, size) in _FIELDS.items()
            if name in values
        )
    except (LookupError, ValueError, OverflowError):
        return None
    return None if values else Drop(flow, fields)


def write_drops(connection: Connection, wanted: Sequence[Drop], gone: Sequence[Drop]) -> list[Drop] | None:
    """Add flows that drop and delete others, and return those that were not as they are now.

    None where one of them is there with a foreign cookie, or is refused: what is wrong is for `reconcile.py`. Nothing
    is written in the first case.
    """
    present = _present(connection, (*wanted, *gone))
    if present is None or any(found and found.cookie not in OWN_COOKIES for found in present):
        return None
    differing, messages = [], []
    for position, (one, found) in enumerate(zip((*wanted, *gone), present, strict=True)):
        is_gone = position >= len(wanted)
        if bool(found) == is_gone or (found and (found.acts or found.cookie != one.flow.cookie)):
            differing.append(one)
            messages.append((_FLOW_MOD, _modification(one, _DELETE_STRICT if is_gone else _ADD)))
    return None if messages and connection.exchange(messages)[1] else differing


def is_written(connection: Connection, drop: Drop) -> bool:
    """Return whether a flow is there as it should be."""
    [found] = _present(connection, [drop]) or [None]
    return found is not None and not found.acts and found.cookie == drop.flow.cookie


def write_again(connection: Connection, drop: Drop) -> None:
    """Add a flow that `is_written`: it stays as it is, and Open vSwitch revalidates its datapath."""
    connection.exchange([(_FLOW_MOD, _modification(drop, _ADD))])


def send_frames(connection: Connection, port: str, frames: Iterable[bytes]) -> bool:
    """Send Ethernet frames out of a port, by its OpenFlow number, bypassing flows; return whether all were sent."""
    action = _OUTPUT.pack(0, _OUTPUT.size, int(port), 0)
    head = _OUT.pack(_NO_BUFFER, _CONTROLLER, len(action)) + action
    return not connection.exchange((_PACKET_OUT, head + frame) for frame in frames)[1]


@dataclass(frozen=True, slots=True)
class _Entry:
    """A flow that the switch has; `acts` is whether it does anything but to drop."""

    priority: int
    cookie: int
    fields: frozenset[bytes]
    acts: bool

    def is_at(self, drop: Drop) -> bool:
        """Return whether a flow has its priority and match; the table was asked for."""
        return (self.priority, self.fields) == (drop.flow.priority, frozenset(drop.fields))


def _present(connection: Connection, drops: Sequence[Drop]) -> list[_Entry | None] | None:
    """Return what the switch has in the place of each flow; None where the request is refused."""
    replies, errors = connection.exchange(
        (_MULTIPART_REQUEST, _REQUEST.pack(_FLOW_STATISTICS, 0, one.flow.table, _ANY, _ANY, 0, 0) + one.match)
        for one in drops
    )
    if errors:
        return None
    return [
        next((entry for body in replies.get(position, ()) for entry in _entries(body) if entry.is_at(one)), None)
        for position, one in enumerate(drops)
    ]


def _entries(body: bytes) -> Iterator[_Entry]:
    """Return the flows in one part of the reply to a request for statistics."""
    place = _MULTIPART_HEAD.size
    while place < len(body):
        size, *_rest, priority, _idle, _hard, _flags, _importance, cookie, _packets, _bytes = _STATISTICS.unpack_from(
            body, place
        )
        match = place + _STATISTICS.size
        _kind, length = _MATCH.unpack_from(body, match)
        fields, field = set(), match + _MATCH.size
        while field < match + length:
            width = _FIELD.size + body[field + _FIELD.size - 1]
            fields.add(body[field : field + width])
            field += width
        yield _Entry(priority, cookie, frozenset(fields), acts=_STATISTICS.size + length + -length % 8 < size)
        place += size


def _modification(drop: Drop, command: int) -> bytes:
    flow = drop.flow
    mask = _ALL_BITS if command == _DELETE_STRICT else 0
    head = flow.cookie, mask, flow.table, command, 0, 0, flow.priority, _NO_BUFFER, _ANY, _ANY, 0, 0
    return _MODIFICATION.pack(*head) + drop.match


def _filled_up(data: bytes) -> bytes:
    return data + bytes(-len(data) % 8)


def _number(name: str, text: str) -> int:
    if name == "in_port" and text == "LOCAL":
        return _LOCAL
    if name == "dl_src":
        return int(text.replace(":", ""), 16)
    if name in ("nw_src", "arp_spa", "ipv6_src", "nd_target"):
        return int(ipaddress.ip_address(text))
    return int(text, 0)
