# SPDX-License-Identifier: Apache-2.0
"""What the kernel removes of a host by itself when addresses and links change, so that it has to be set again.

- With a primary IPv4 address go the secondary ones of the same subnet, unless `promote_secondaries` is set for the link
  (ip-sysctl, `promote_secondaries`).
- With the last IPv4 address of a link go all IPv4 routes and neighbours of the link.
- Routes with a source address go with that, or, those of IPv6, lose it.
- With the last IPv6 address of a prefix goes one route to the prefix: that with the lowest metric, the kernel's or not.
- A link that changes its MAC address loses its neighbours; one that gets into or out of a VRF goes down and up.

Nothing else goes with an address: neither its neighbours nor the routes whose gateway is in its subnet.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass

from .protocol.rtnetlink import RT_TABLE_MAIN
from .reader import HostState

# As text: ansible-test checks them for the oldest Python of managed hosts, too.
_Address = "tuple[str, str]"
_Route = "tuple[int, str, int]"


@dataclass(frozen=True)
class Losses:
    """Keys of a `HostState` whose objects the kernel removes, or may remove."""

    addresses: frozenset[_Address] = frozenset()
    routes: frozenset[_Route] = frozenset()
    neighbours: frozenset[_Address] = frozenset()


def losses(
    state: HostState, removed: set[_Address], moved: set[str], changed: set[str], promotes: Callable[[str], bool]
) -> Losses:
    """Return what is lost when addresses are removed from a state.

    `moved` are the links that change their VRF, `changed` those that change their MAC address; `promotes` says of a
    link whether a secondary address takes the place of its primary one. Where kernels differ, the owner's objects count
    as lost, since setting them once more does no harm, and foreign ones do not: they would become the owner's.
    """
    gone = removed | {key for key in set(state.addresses) - removed if _follows(state, key, removed, promotes)}
    left = {key for key in state.addresses if key not in gone}
    emptied = {device for device, text in gone if _is_ipv4(text)} - {device for device, text in left if _is_ipv4(text)}
    gone |= {key for key, address in state.addresses.items() if address.own and key[0] in moved}

    sources = {text.partition("/")[0] for _device, text in gone}
    routes = set(_prefix_routes(state, removed, left))
    routes |= {key for key, route in state.routes.items() if route.device in moved or route.source in sources}
    routes = {key for key in routes if state.routes[key].own}
    routes |= {key for key, route in state.routes.items() if route.device in emptied and _is_ipv4(key[1])}

    neighbours = {
        (device, address)
        for device, address in state.neighbours
        if device in moved | changed or (device in emptied and _is_ipv4(address))
    }
    return Losses(frozenset(gone), frozenset(routes), frozenset(neighbours))


def _is_ipv4(text: str) -> bool:
    return ":" not in text


def _follows(state: HostState, key: _Address, removed: set[_Address], promotes: Callable[[str], bool]) -> bool:
    """Return whether an address is a secondary one whose primary one is removed, and goes with it."""
    device, text = key
    if not state.addresses[key].secondary:
        return False
    subnet = ipaddress.ip_interface(text).network
    primary = any(
        other == device and not state.addresses[other, one].secondary and ipaddress.ip_interface(one).network == subnet
        for other, one in removed
    )
    return primary and not promotes(device)


def _prefix_routes(state: HostState, removed: set[_Address], left: set[_Address]) -> list[_Route]:
    """Return the routes that the kernel takes for its own ones to the prefixes of removed IPv6 addresses."""
    kept = {(device, ipaddress.ip_interface(text).network) for device, text in left}
    found = []
    for device, text in removed:
        prefix = ipaddress.ip_interface(text).network
        if _is_ipv4(text) or not state.addresses[device, text].prefix_route or (device, prefix) in kept:
            continue
        of_device = [
            (metric, (table, to, metric))
            for (table, to, metric), route in state.routes.items()
            if to == str(prefix) and route.device == device and not route.via and table == _table(state, device)
        ]
        found += [key for _metric, key in sorted(of_device)[:1]]
    return found


def _table(state: HostState, device: str) -> int:
    """Return the table in which the kernel has the routes to the prefixes of a link's addresses."""
    link = state.links.get(device)
    master = state.links.get(link.master) if link else None
    return (master.table if master else 0) or RT_TABLE_MAIN
