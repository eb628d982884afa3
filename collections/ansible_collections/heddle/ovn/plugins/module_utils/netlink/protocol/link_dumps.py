# SPDX-License-Identifier: Apache-2.0
"""Links and their addresses of a network namespace, read as messages of rtnetlink(7).

A host has two links for each workload, and each run reads them several times. Decoding each of their attributes, as
pyroute2 does, took a tenth of the processor time of a run.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass

from .raw_messages import attributes
from .raw_socket import RawSocket, attribute

_GET_LINK, _GET_ADDRESS = 18, 22
# linux/rtnetlink.h, if_link.h, if_addr.h: the fixed parts of messages, and attributes.
_LINK, _ADDRESS, _NUMBER = struct.Struct("=BxHiII"), struct.Struct("=BBBBI"), struct.Struct("=I")
_IFLA_ADDRESS, _IFLA_IFNAME, _IFLA_MTU, _IFLA_MASTER, _IFLA_LINKINFO, _IFLA_IFALIAS = 1, 3, 4, 10, 18, 20
_IFLA_EXT_MASK, _SKIP_STATISTICS = 29, 8
_INFO_KIND, _INFO_DATA, _VRF_TABLE = 1, 2, 1
_IFA_ADDRESS, _IFA_LOCAL, _IFA_FLAGS, _IFA_PROTO = 1, 2, 8, 11
_UP = 1


@dataclass(frozen=True, slots=True)
class LinkEntry:
    """A link: `type` as in linux/if_arp.h, `master` the index of what it belongs to or 0, `table` a VRF's or 0."""

    index: int
    name: str
    type: int
    up: bool
    mac: str
    mtu: int
    alias: str
    kind: str
    master: int
    table: int


@dataclass(frozen=True, slots=True)
class AddressEntry:
    """An address of the link with that index: `text` has the prefix length, `flags` and `scope` as in linux/if_addr.h.

    `protocol` says who set it, 0 where no one said.
    """

    index: int
    text: str
    flags: int
    scope: int
    protocol: int


def read_links(netlink: RawSocket) -> list[LinkEntry]:
    """Return the links of a socket's namespace; DumpInterrupted when they changed meanwhile, or another OSError."""
    request = _LINK.pack(0, 0, 0, 0, 0) + attribute(_IFLA_EXT_MASK, _SKIP_STATISTICS)
    return list(map(_link, netlink.dump(_GET_LINK, request)))


def read_addresses(netlink: RawSocket) -> list[AddressEntry]:
    """Return the addresses of all links; errors as those of `read_links`."""
    return list(map(_address, netlink.dump(_GET_ADDRESS, _ADDRESS.pack(0, 0, 0, 0, 0))))


def _link(message: bytes) -> LinkEntry:
    _family, kind, index, flags, _change = _LINK.unpack_from(message)
    found = attributes(message[_LINK.size :])
    made = attributes(found.get(_IFLA_LINKINFO, b""))
    driver = _text(made.get(_INFO_KIND, b""))
    data = attributes(made.get(_INFO_DATA, b"")) if driver == "vrf" else {}
    return LinkEntry(
        index=index,
        name=_text(found[_IFLA_IFNAME]),
        type=kind,
        up=bool(flags & _UP),
        mac=found[_IFLA_ADDRESS].hex(":") if _IFLA_ADDRESS in found else "",
        mtu=_number(found[_IFLA_MTU]),
        alias=_text(found.get(_IFLA_IFALIAS, b"")),
        kind=driver,
        master=_number(found[_IFLA_MASTER]) if _IFLA_MASTER in found else 0,
        table=_number(data[_VRF_TABLE]) if _VRF_TABLE in data else 0,
    )


def _address(message: bytes) -> AddressEntry:
    family, length, flags, scope, index = _ADDRESS.unpack_from(message)
    found = attributes(message[_ADDRESS.size :])
    text = socket.inet_ntop(family, found.get(_IFA_LOCAL) or found[_IFA_ADDRESS])
    return AddressEntry(
        index=index,
        text=f"{text}/{length}",
        # The attribute has more than the eight bits of the header.
        flags=_number(found[_IFA_FLAGS]) if _IFA_FLAGS in found else flags,
        scope=scope,
        protocol=found.get(_IFA_PROTO, b"\0")[0],
    )


def _text(value: bytes) -> str:
    return value.rstrip(b"\0").decode()


def _number(value: bytes) -> int:
    return _NUMBER.unpack(value)[0]
