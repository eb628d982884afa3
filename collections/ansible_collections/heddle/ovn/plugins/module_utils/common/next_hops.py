# SPDX-License-Identifier: Apache-2.0
"""Whether a router's port reaches its next hops directly."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable


def next_hop_problem(hop: str, interface: str, addresses: Iterable[str]) -> str:
    """Return what is wrong with the next hop of an interface that has `addresses`, with prefix length; else "".

    A hop has to be in a subnet of the interface, since it is resolved by ARP or neighbour discovery there. Link-local
    hops are on every link (RFC 4291, 2.5.6). Hosts with /32 or /128 addresses only have hops beyond their subnets
    (ip-route(8), `onlink`), which ovn-northd resolves on the port that the route names.
    """
    address = ipaddress.ip_address(hop)
    held = [one for text in addresses if (one := ipaddress.ip_interface(text)).version == address.version]
    routable = [one for one in held if not one.ip.is_link_local]
    if address.is_link_local or any(address in one.network for one in held):
        return ""
    if not routable:
        return f"{hop} is not reachable: {interface} has no IPv{address.version} address"
    if all(one.network.num_addresses == 1 for one in routable):
        return ""
    subnets = ", ".join(dict.fromkeys(str(one.network) for one in routable))
    return f"{hop} is in no subnet of {interface} ({subnets})"
