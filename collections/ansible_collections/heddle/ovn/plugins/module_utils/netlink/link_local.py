# SPDX-License-Identifier: Apache-2.0
"""The IPv6 link-local address of a workload's interface, which the kernel derives from its MAC address.

It does so only when the interface comes up. When the MAC address changes later, the old address stays, and OVN's port
security drops what the workload sends from it. Setting the interface down and up would derive it anew, but would
remove the other IPv6 addresses and the routes. So it is replaced here.
"""

from __future__ import annotations

import ipaddress

from . import kernel
from .protocol.link_addresses import DERIVED, remove_address, write_address

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
    found = {text for text, origin in there["link-local"].items() if origin == DERIVED and _is_of_ours(text)}
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
    with kernel.in_netns(namespace):
        write_address(name, derived_address(mac), origin=DERIVED)
        for address in sorted(stale):
            remove_address(name, address)
