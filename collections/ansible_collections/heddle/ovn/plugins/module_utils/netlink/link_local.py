# SPDX-License-Identifier: Apache-2.0
"""The IPv6 link-local address of a workload's interface, which the kernel derives from its MAC address.

It does so only when the interface comes up. When the MAC address changes later, the old address stays, and OVN's port
security drops what the workload sends from it. Setting the interface down and up would derive it anew, but would
remove the other IPv6 addresses and the routes. So it is replaced here.
"""

from __future__ import annotations

import ipaddress
import socket
import struct

from . import kernel
from .protocol.messages import NO_DAD
from .protocol.raw_socket import CREATE, REPLACE, RawSocket, attribute

# linux/rtnetlink.h, if_addr.h.
_NEW_ADDRESS, _DELETE_ADDRESS = 20, 21
_ADDRESS = struct.Struct("=BBBBI")
_IFA_ADDRESS, _IFA_LOCAL, _IFA_PROTO = 1, 2, 11
_LINK_SCOPE = 253
# IFAPROT_KERNEL_LL: the kernel derived it. Kernels before 5.18 do not say so.
_DERIVED = 3
# The first bytes of the interface identifier that comes from a MAC address of Heddle, 0a:58 (RFC 4291, appendix A).
_OURS = b"\x08\x58"


def derived_address(mac: str) -> str:
    """Return the link-local address that the kernel derives from a MAC address (RFC 4291, appendix A)."""
    first, *rest = bytes.fromhex(mac.replace(":", ""))
    identifier = bytes([first ^ 2, *rest[:2], 0xFF, 0xFE, *rest[2:]])
    return f"{ipaddress.IPv6Address(bytes.fromhex('fe80000000000000') + identifier)}/64"


def stale_addresses(there: dict, mac: str) -> set[str]:
    """Return the link-local addresses of a link, as `kernel.read_links` has it, that belong to another MAC than `mac`.

    They are the one of the MAC address that it has, and what the kernel derived from earlier ones of Heddle. Others
    are of the workload's own, and all are where the kernel is not to derive any from the MAC address.
    """
    if not there["derives"]:
        return set()
    found = {text for text, origin in there["link-local"].items() if origin == _DERIVED and _is_of_ours(text)}
    found |= {derived_address(there["mac"])} & set(there["link-local"])
    return found - {derived_address(mac)}


def _is_of_ours(text: str) -> bool:
    packed = ipaddress.ip_interface(text).packed
    return packed[8:10] == _OURS and packed[11:13] == b"\xff\xfe"


def replace_addresses(namespace: str, name: str, stale: set[str], mac: str) -> None:
    """Replace stale link-local addresses of a link by that of `mac`, as the kernel would have made it.

    The new one comes first: with the last address of the prefix the kernel removes the route to it. No duplicates are
    looked for, as for the other addresses, so that the workload can use it at once.
    """
    with kernel.in_netns(namespace), RawSocket() as netlink:
        index = socket.if_nametoindex(name)
        made = _message(index, derived_address(mac)) + attribute(_IFA_PROTO, bytes([_DERIVED]))
        netlink.request((_NEW_ADDRESS, CREATE | REPLACE, made))
        for address in sorted(stale):
            netlink.request((_DELETE_ADDRESS, 0, _message(index, address)))


def _message(index: int, address: str) -> bytes:
    text, _slash, length = address.partition("/")
    packed = socket.inet_pton(socket.AF_INET6, text)
    message = _ADDRESS.pack(socket.AF_INET6, int(length), NO_DAD, _LINK_SCOPE, index)
    return message + attribute(_IFA_LOCAL, packed) + attribute(_IFA_ADDRESS, packed)
