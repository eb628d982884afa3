# SPDX-License-Identifier: Apache-2.0
"""Addresses of link scope, as messages of rtnetlink(7). It decides nothing."""

from __future__ import annotations

import socket

from ..kernel import read_whole
from .messages import FAMILIES
from .raw_messages import attributes
from .raw_socket import CREATE, REPLACE, RawSocket, attribute
from .rtnetlink import (
    IFA_ADDRESS,
    IFA_F_NODAD,
    IFA_LOCAL,
    IFA_PROTO,
    IFADDRMSG,
    RT_SCOPE_LINK,
    RTM_DELADDR,
    RTM_GETADDR,
    RTM_NEWADDR,
)

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
        for message in netlink.dump(RTM_GETADDR, IFADDRMSG.pack(0, 0, 0, 0, index)):
            family, length, *_rest = IFADDRMSG.unpack_from(message)
            values = attributes(message[IFADDRMSG.size :])
            text = socket.inet_ntop(family, values.get(IFA_LOCAL) or values[IFA_ADDRESS])
            found.add(f"{text}/{length}")
    return found


def write_address(name: str, address: str, *, origin: int = 0) -> None:
    """Add an address of link scope, without duplicate address detection; `origin` says who has made it."""
    message = _message(name, address) + (attribute(IFA_PROTO, bytes([origin])) if origin else b"")
    with RawSocket() as netlink:
        netlink.request((RTM_NEWADDR, CREATE | REPLACE, message))


def remove_address(name: str, address: str) -> None:
    """Remove an address of link scope."""
    with RawSocket() as netlink:
        netlink.request((RTM_DELADDR, 0, _message(name, address)))


def _message(name: str, address: str) -> bytes:
    text, _slash, length = address.partition("/")
    family = FAMILIES[6 if ":" in text else 4]
    packed = socket.inet_pton(family, text)
    flags = IFA_F_NODAD if family == socket.AF_INET6 else 0
    message = IFADDRMSG.pack(family, int(length), flags, RT_SCOPE_LINK, socket.if_nametoindex(name))
    return message + attribute(IFA_LOCAL, packed) + attribute(IFA_ADDRESS, packed)
