# SPDX-License-Identifier: Apache-2.0
"""Ends tracked UDP connections by where they lead, in all zones and over one OpenFlow connection.

The message is Open vSwitch's own (include/openflow/nicira-ext.h, `NXT_CT_FLUSH`). ovs-ofctl(8) has `ct-flush` for one
of them.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_address

from ..common.errors import OpenFlowError
from .management_connection import VERSION_1_4, connected, management_socket

_EXPERIMENTER, _NICIRA, _CT_FLUSH = 4, 0x00002320, 32
_HEADER, _PROPERTY = struct.Struct("!IIB7x"), struct.Struct("!HH")
_ORIGINAL, _REPLY = 0, 1
_SOURCE, _DESTINATION, _SOURCE_PORT, _DESTINATION_PORT = range(4)


@dataclass(frozen=True, order=True, slots=True)
class Translation:
    """A UDP destination, and what it is translated to: "" for anything."""

    address: str
    port: int
    target: str = ""
    target_port: int = 0


def end_connections(bridge: str, translations: Iterable[Translation]) -> None:
    """End the connections that are translated so, in the datapath of a bridge; OpenFlowError where that is refused."""
    with connected(management_socket(bridge), VERSION_1_4) as connection:
        _replies, errors = connection.exchange((_EXPERIMENTER, _body(one)) for one in translations)
    if errors:
        raise OpenFlowError(
            f"bridge {bridge}: the switch does not end {len(errors)} connections ({errors.popitem()[1]})"
        )


def _body(one: Translation) -> bytes:
    body = _HEADER.pack(_NICIRA, _CT_FLUSH, socket.IPPROTO_UDP)
    body += _tuple(_ORIGINAL, _DESTINATION, one.address, _DESTINATION_PORT, one.port)
    return body + _tuple(_REPLY, _SOURCE, one.target, _SOURCE_PORT, one.target_port) if one.target else body


def _tuple(kind: int, address_kind: int, address: str, port_kind: int, port: int) -> bytes:
    # Nested properties begin after four bytes of padding.
    return _property(kind, bytes(4) + _property(address_kind, _packed(address)) + _port(port_kind, port))


def _port(kind: int, port: int) -> bytes:
    return _property(kind, struct.pack("!H2x", port))


def _packed(text: str) -> bytes:
    """Return an address of 16 bytes; IPv4 is mapped (RFC 4291, section 2.5.5.2)."""
    address = ip_address(text)
    return address.packed if address.version == 6 else bytes(10) + b"\xff\xff" + address.packed


def _property(kind: int, value: bytes) -> bytes:
    """Return a property, filled up to a multiple of eight bytes, which its length does not count."""
    size = _PROPERTY.size + len(value)
    return _PROPERTY.pack(kind, size) + value + bytes(-size % 8)
