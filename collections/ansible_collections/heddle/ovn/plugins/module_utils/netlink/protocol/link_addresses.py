# SPDX-License-Identifier: Apache-2.0
"""Addresses of link scope, as messages of rtnetlink(7). It decides nothing."""

from __future__ import annotations

import socket
import struct

from ..kernel import read_whole
from .messages import FAMILIES, NO_DAD
from .raw_messages import attributes
from .raw_socket import CREATE, REPLACE, RawSocket, attribute

_NEW_ADDRESS, _DELETE_ADDRESS, _GET_ADDRESS = 20, 21, 22
_ADDRESS = struct.Struct("=BBBBI")
_IFA_ADDRESS, _IFA_LOCAL, _IFA_PROTO = 1, 2, 11
_LINK_SCOPE = 253
# IFAPROT_KERNEL_LL: the kernel derived it from the MAC address. Kernels before 5.18 do not say so.
DERIVED = 3


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


def write_address(name: str, address: str, *, origin: int = 0) -> None:
    """Add an address of link scope, without duplicate address detection; `origin` says who has made it."""
    message = _message(name, address) + (attribute(_IFA_PROTO, bytes([origin])) if origin else b"")
    with RawSocket() as netlink:
        netlink.request((_NEW_ADDRESS, CREATE | REPLACE, message))


def remove_address(name: str, address: str) -> None:
    """Remove an address of link scope."""
    with RawSocket() as netlink:
        netlink.request((_DELETE_ADDRESS, 0, _message(name, address)))


def _message(name: str, address: str) -> bytes:
    text, _slash, length = address.partition("/")
    family = FAMILIES[6 if ":" in text else 4]
    packed = socket.inet_pton(family, text)
    flags = NO_DAD if family == socket.AF_INET6 else 0
    message = _ADDRESS.pack(family, int(length), flags, _LINK_SCOPE, socket.if_nametoindex(name))
    return message + attribute(_IFA_LOCAL, packed) + attribute(_IFA_ADDRESS, packed)
