# SPDX-License-Identifier: Apache-2.0
"""The addresses that a host has on its NICs, as other software configured them."""

from __future__ import annotations

import ipaddress

from ..common.addressing import plain
from ..types.host_network import PROTOCOL
from .handle import HostKernel
from .kernel import read_whole
from .protocol.messages import DEPRECATED, address_flags, address_text, is_up, link_kind

# What links of other kinds have is for programs of this host or for tunnels (ip-link(8), TYPE).
_KINDS = frozenset(["", "bond", "bridge", "dummy", "ipvlan", "macvlan", "team", "veth", "vlan"])
# linux/if_addr.h, IFA_F_TEMPORARY; rtnetlink(7), scope of an address; linux/if_arp.h, ARPHRD_ETHER.
_TEMPORARY, _GLOBAL, _ETHERNET = 0x01, 0, 1


@read_whole
def held_addresses() -> list[str]:
    """Return the addresses that this host has for others: those with the mark that are alone in a subnet."""
    with HostKernel() as kernel:
        _links, messages = kernel.read_addresses()
    own = [address_text(message) for message in messages if message.get_attr("IFA_PROTO") == PROTOCOL]
    return sorted(plain(text) for text in own if ipaddress.ip_interface(text).network.num_addresses == 1)


@read_whole
def nic_addresses(without: frozenset[str]) -> dict[str, list[str]]:
    """Return the addresses with prefix length by link, of Ethernet links that are up and not among `without`.

    As ovn-kubernetes has them (`getFilteredPrefixes`): of global scope, and in a subnet with other addresses. Left out
    are temporary ones (RFC 8981), which change all the time, Heddle's own, and those of a link that belongs to a VRF
    or a bridge.
    """
    with HostKernel() as kernel:
        links, messages = kernel.read_addresses()
    names = {
        link["index"]: link.get_attr("IFLA_IFNAME")
        for link in links
        if is_up(link)
        and link["ifi_type"] == _ETHERNET
        and link_kind(link) in _KINDS
        and not link.get_attr("IFLA_MASTER")
    }
    found: dict[str, list[str]] = {}
    for message in messages:
        name, text = names.get(message["index"], ""), address_text(message)
        if not name or name in without or message["scope"] != _GLOBAL or message.get_attr("IFA_PROTO") == PROTOCOL:
            continue
        if (
            address_flags(message) & (_TEMPORARY | DEPRECATED)
            or ipaddress.ip_interface(text).network.num_addresses == 1
        ):
            continue
        found.setdefault(name, []).append(text)
    return {name: sorted(addresses, key=lambda text: (":" in text, text)) for name, addresses in sorted(found.items())}
