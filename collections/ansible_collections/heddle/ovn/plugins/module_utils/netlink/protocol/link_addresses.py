# SPDX-License-Identifier: Apache-2.0
"""Link-local addresses of a host's end of a link, as messages of rtnetlink(7). It decides nothing."""

from __future__ import annotations

import socket
import struct

from ..kernel import read_whole
from .messages import FAMILIES, NO_DAD
from .raw_messages import attributes
from .raw_socket import CREATE, REPLACE, RawSocket, attribute

_NEW_ADDRESS, _GET_ADDRESS = 20, 22
_ADDRESS = struct.Struct("=BBBBI")
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_LINK_SCOPE = 253


@read_whole
def read_addresses(name: str) -> set[str]:
    """Return the addresses of a link with their prefix lengths; none of a link that is not there."""
    try:
        index = socket.if_nametoindex(name)
    except OSError:
        return set()
    found = set()
    with RawSocket() as netlink:
        for message in netlink.dump(_GET_ADDRESS, _ADDRESS.pack(0, 0, 0, 0, index)):
            family, length, *_rest = _ADDRESS.unpack_from(message)
            values = attributes(message[_ADDRESS.size :])
            text = socket.inet_ntop(family, values.get(_IFA_LOCAL) or values[_IFA_ADDRESS])
            found.add(f"{text}/{length}")
    return found


def write_address(name: str, address: str) -> None:
    """Add an address of link scope, without duplicate address detection."""
    text, _slash, length = address.partition("/")
    family = FAMILIES[6 if ":" in text else 4]
    packed = socket.inet_pton(family, text)
    flags = NO_DAD if family == socket.AF_INET6 else 0
    message = _ADDRESS.pack(family, int(length), flags, _LINK_SCOPE, socket.if_nametoindex(name))
    message += attribute(_IFA_LOCAL, packed) + attribute(_IFA_ADDRESS, packed)
    with RawSocket() as netlink:
        netlink.request((_NEW_ADDRESS, CREATE | REPLACE, message))
