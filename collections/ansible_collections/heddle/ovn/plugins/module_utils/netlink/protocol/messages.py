# SPDX-License-Identifier: Apache-2.0
"""Decodes the kernel's messages as pyroute2 returns them (rtnetlink(7), linux/if_addr.h).

The readers of this folder decode with these; each keeps what it needs. pyroute2 is not imported here.
"""

from __future__ import annotations

import socket

from .rtnetlink import IFF_UP

FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}
_ANY = {4: "0.0.0.0", 6: "::"}


def is_up(link) -> bool:
    """Return whether a link is set up (IFF_UP), with a carrier or not."""
    return bool(link["flags"] & IFF_UP)


def address_flags(address) -> int:
    """Return the flags of an address: the attribute has more than the eight bits of the header."""
    return address.get_attr("IFA_FLAGS") or address["flags"]


def address_text(address) -> str:
    """Return an address with its prefix length, as `ip address` writes it."""
    return f"{address.get_attr('IFA_LOCAL') or address.get_attr('IFA_ADDRESS')}/{address['prefixlen']}"


def destination(route, family: int) -> str:
    """Return the prefix that a route leads to; `family` is 4 or 6, since a default route has no destination."""
    return f"{route.get_attr('RTA_DST') or _ANY[family]}/{route['dst_len']}"


def route_table(route) -> int:
    """Return the table of a route: the attribute has numbers beyond the eight bits of the header."""
    return route.get_attr("RTA_TABLE") or route["table"]
