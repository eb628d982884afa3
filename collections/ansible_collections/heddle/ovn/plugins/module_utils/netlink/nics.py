# SPDX-License-Identifier: Apache-2.0
"""The addresses that a host has on its NICs, as other software configured them."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from ..common.addressing import plain
from ..types.host_network import PROTOCOL
from . import kernel
from .kernel import read_whole
from .protocol.link_dumps import read_addresses, read_links
from .protocol.raw_socket import RawSocket
from .protocol.rtnetlink import IFA_F_DEPRECATED, IFA_F_TEMPORARY, RT_SCOPE_UNIVERSE

# What links of other kinds have is for programs of this host or for tunnels (ip-link(8), TYPE).
_KINDS = frozenset(["", "bond", "bridge", "dummy", "ipvlan", "macvlan", "team", "veth", "vlan"])
_ETHERNET = 1  # ARPHRD_ETHER (linux/if_arp.h)
_NOT_LASTING = IFA_F_TEMPORARY | IFA_F_DEPRECATED


@read_whole
def held_addresses() -> list[str]:
    """Return the addresses that this host has for others: those with the mark that are alone in a subnet."""
    with RawSocket() as netlink:
        own = [entry.text for entry in read_addresses(netlink) if entry.protocol == PROTOCOL]
    return sorted(plain(text) for text in own if ipaddress.ip_interface(text).network.num_addresses == 1)


@read_whole
def nic_addresses(without: frozenset[str]) -> dict[str, list[str]]:
    """Return the addresses with prefix length by link, of Ethernet links that are up and not among `without`.

    As ovn-kubernetes has them (`getFilteredPrefixes`): of global scope, and in a subnet with other addresses. Left out
    are temporary ones (RFC 8981), which change all the time, Heddle's own, and those of a link that belongs to a VRF
    or a bridge.
    """
    with RawSocket() as netlink:
        links, entries = read_links(netlink), read_addresses(netlink)
    names = {
        link.index: link.name
        for link in links
        if link.up and link.type == _ETHERNET and link.kind in _KINDS and not link.master
    }
    found: dict[str, list[str]] = {}
    for entry in entries:
        name = names.get(entry.index, "")
        if not name or name in without or entry.scope != RT_SCOPE_UNIVERSE or entry.protocol == PROTOCOL:
            continue
        if entry.flags & _NOT_LASTING or ipaddress.ip_interface(entry.text).network.num_addresses == 1:
            continue
        found.setdefault(name, []).append(entry.text)
    return {name: sorted(addresses, key=lambda text: (":" in text, text)) for name, addresses in sorted(found.items())}


def smallest_mtu(addresses: Iterable[str]) -> int | None:
    """Return the smallest MTU of the links with these addresses, None where no link has any."""
    wanted = set(addresses)
    links = kernel.read_links(None).values()
    return min((link["mtu"] for link in links if wanted & set(map(plain, link["addresses"]))), default=None)
