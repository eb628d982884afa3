# SPDX-License-Identifier: Apache-2.0
"""The frame of netlink messages (netlink(7)), read without pyroute2, which is slow to load."""

from __future__ import annotations

import struct
from collections.abc import Iterator

# The two highest bits of a type are flags (linux/netlink.h, NLA_TYPE_MASK).
_TYPE = 0x3FFF
# linux/netlink.h: nlmsghdr, and nlattr.
HEADER, ATTRIBUTE = struct.Struct("=IHHII"), struct.Struct("=HH")
# Level of the options of a netlink socket (linux/socket.h).
SOL_NETLINK = 270
# The family of connection tracking and nftables (linux/netlink.h).
NETLINK_NETFILTER = 12


def messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the type and the body of each message; what is cut off at the end is left out."""
    while len(data) >= HEADER.size:
        length, kind, *_rest = HEADER.unpack_from(data)
        if length < HEADER.size:
            return
        yield kind, data[HEADER.size : length]
        data = data[(length + 3) & ~3 :]


def attributes(data: bytes) -> dict[int, bytes]:
    """Return the attributes by their type; of several with one type the last."""
    found, start = {}, 0
    while len(data) - start >= ATTRIBUTE.size:
        length, kind = ATTRIBUTE.unpack_from(data, start)
        if length < ATTRIBUTE.size:
            break
        found[kind & _TYPE] = data[start + ATTRIBUTE.size : start + length]
        start += (length + 3) & ~3
    return found


def decoded(value: bytes) -> str:
    """Return the text of an attribute, which may end with a zero byte.

    The kernel takes any bytes as the name or alias of a link. Those that are no UTF-8 become escapes (`\\xff`): such a
    text can be printed and stored, and is none of Heddle's.
    """
    return value.rstrip(b"\0").decode(errors="backslashreplace")
