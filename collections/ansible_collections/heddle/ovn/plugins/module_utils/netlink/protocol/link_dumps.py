# SPDX-License-Identifier: Apache-2.0
"""Links and their addresses of a network namespace, read as messages of rtnetlink(7).

A host has two links for each workload, and each run reads them several times. Decoding each of their attributes, as
pyroute2 does, took a tenth of the processor time of a run.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass

from .raw_messages import attributes, decoded
from .raw_socket import RawSocket, attribute
from .rtnetlink import (
    IFA_ADDRESS,
    IFA_FLAGS,
    IFA_LOCAL,
    IFA_PROTO,
    IFADDRMSG,
    IFF_UP,
    IFINFOMSG,
    IFLA_ADDRESS,
    IFLA_EXT_MASK,
    IFLA_IFALIAS,
    IFLA_IFNAME,
    IFLA_INFO_DATA,
    IFLA_INFO_KIND,
    IFLA_LINKINFO,
    IFLA_MASTER,
    IFLA_MTU,
    IFLA_VRF_TABLE,
    RTEXT_FILTER_SKIP_STATS,
    RTM_GETADDR,
    RTM_GETLINK,
    U32,
)


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
    request = IFINFOMSG.pack(0, 0, 0, 0, 0) + attribute(IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS)
    return list(map(_link, netlink.dump(RTM_GETLINK, request)))


def read_addresses(netlink: RawSocket) -> list[AddressEntry]:
    """Return the addresses of all links; errors as those of `read_links`."""
    return list(map(_address, netlink.dump(RTM_GETADDR, IFADDRMSG.pack(0, 0, 0, 0, 0))))


def _link(message: bytes) -> LinkEntry:
    _family, kind, index, flags, _change = IFINFOMSG.unpack_from(message)
    found = attributes(message[IFINFOMSG.size :])
    made = attributes(found.get(IFLA_LINKINFO, b""))
    driver = decoded(made.get(IFLA_INFO_KIND, b""))
    data = attributes(made.get(IFLA_INFO_DATA, b"")) if driver == "vrf" else {}
    return LinkEntry(
        index=index,
        name=decoded(found[IFLA_IFNAME]),
        type=kind,
        up=bool(flags & IFF_UP),
        mac=found[IFLA_ADDRESS].hex(":") if IFLA_ADDRESS in found else "",
        mtu=_number(found[IFLA_MTU]),
        alias=decoded(found.get(IFLA_IFALIAS, b"")),
        kind=driver,
        master=_number(found[IFLA_MASTER]) if IFLA_MASTER in found else 0,
        table=_number(data[IFLA_VRF_TABLE]) if IFLA_VRF_TABLE in data else 0,
    )


def _address(message: bytes) -> AddressEntry:
    family, length, flags, scope, index = IFADDRMSG.unpack_from(message)
    found = attributes(message[IFADDRMSG.size :])
    text = socket.inet_ntop(family, found.get(IFA_LOCAL) or found[IFA_ADDRESS])
    return AddressEntry(
        index=index,
        text=f"{text}/{length}",
        # The attribute has more than the eight bits of the header.
        flags=_number(found[IFA_FLAGS]) if IFA_FLAGS in found else flags,
        scope=scope,
        protocol=found.get(IFA_PROTO, b"\0")[0],
    )


def _number(value: bytes) -> int:
    return U32.unpack(value)[0]
