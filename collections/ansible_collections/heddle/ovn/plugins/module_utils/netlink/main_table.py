# SPDX-License-Identifier: Apache-2.0
"""Copies of the main table's routes in VRFs, and in tables of links.

OKEP-5193, "Local Gateway Mode": "The VRFs will clone the default routing table, excluding routes that are created by
OVN-Kubernetes for its networks". The default route is not copied, it is part of what is desired of a VRF. A link's own
table has all routes by that link, default routes among them (ovn-kubernetes, `generateRoutesForLink`).
"""

from __future__ import annotations

import ipaddress
import json
from dataclasses import dataclass

from ..types.host_network import HostNetwork, Vrf, link_table
from .protocol.rtnetlink import RT_TABLE_MAIN, RTNH_F_ONLINK
from .reader import HostState, RouteState

# As text: ansible-test checks them for the oldest Python of managed hosts, too.
Key = "tuple[int | str, str, int]"
_Prefix = "ipaddress.IPv4Network | ipaddress.IPv6Network"
# Attributes that are not part of a copy: where the route is and how old, and a next hop object, whose next hops the
# kernel reports as well. pyroute2 0.7 calls that one unknown.
_LEFT_OUT = frozenset(["RTA_TABLE", "RTA_CACHEINFO", "RTA_EXPIRES", "RTA_NH_ID", "UNKNOWN"])


@dataclass(frozen=True)
class Copy:
    """A route of the main table that a VRF of `network` should have as well."""

    route: RouteState
    network: str


def copies(desired: HostNetwork, state: HostState, tables: dict[str, int]) -> dict[Key, Copy]:
    """Return the copies that VRFs and tables of links should have, by (table, prefix, metric).

    Those without a gateway come first. `tables` has the tables by name; one that is 0 (not known yet) stands there with
    its name.
    A route is not copied to a prefix that the VRF has a route of its own to, nor to one inside of what it reaches
    through its own links: that would take addresses away from the network.
    """
    followers = [vrf for vrf in desired.vrfs if vrf.main_routes]
    if not followers and not desired.link_tables:
        return {}
    everything = _candidates(desired, state)
    found: dict[Key, Copy] = {}
    for name in desired.link_tables:
        table = tables[link_table(name)] or link_table(name)
        by_link = [one for one in everything if one[2].device == name]
        found |= {(table, str(prefix), metric): Copy(route, "") for prefix, metric, route in by_link}
    candidates, of_vrfs = [one for one in everything if one[0].prefixlen], _own(desired, followers)
    for vrf in followers:
        own, inner = of_vrfs[vrf.name]
        families = {prefix.version for prefix in own}
        for prefix, metric, route in candidates:
            if prefix.version not in families or prefix in own or any(_inside(prefix, one) for one in inner):
                continue
            found[tables[vrf.name] or vrf.name, str(prefix), metric] = Copy(route, vrf.network)
    return found


def _candidates(desired: HostNetwork, state: HostState) -> list[tuple[_Prefix, int, RouteState]]:
    """Return the routes of the main table that neither Heddle nor an address of Heddle made."""
    names = {link.index: name for name, link in state.links.items()}
    ours = {link.name for link in desired.links} | {vrf.name for vrf in desired.vrfs}
    made = {route.to for route in desired.routes if not route.vrf}
    addresses = {(address.device, address.address) for address in desired.addresses}
    addresses |= {key for key, address in state.addresses.items() if address.own}
    connected = {(device, str(ipaddress.ip_interface(text).network)) for device, text in addresses}
    found = []
    for (table, to, metric), route in state.routes.items():
        if table != RT_TABLE_MAIN or route.own or route.kind != "unicast" or to in made:
            continue
        prefix, devices = ipaddress.ip_network(to), _devices(route, names)
        if prefix.is_link_local or devices & ours or (route.device, to) in connected:
            continue
        found.append((prefix, metric, route))
    return sorted(found, key=lambda item: (_has_gateway(item[2]), str(item[0]), item[1]))


def _own(desired: HostNetwork, vrfs: list[Vrf]) -> dict[str, tuple[set[_Prefix], set[_Prefix]]]:
    """Return by VRF the prefixes that it has routes of its own to, and those among them behind its own links.

    In one walk for all VRFs: each has a fixed number of the links, addresses and routes.
    """
    found: dict[str, tuple[set[_Prefix], set[_Prefix]]] = {vrf.name: (set(), set()) for vrf in vrfs}
    places = {link.name: link.vrf for link in desired.links if link.vrf in found}
    for address in desired.addresses:
        if address.device in places:
            prefix = ipaddress.ip_interface(address.address).network
            for prefixes in found[places[address.device]]:
                prefixes.add(prefix)
    for route in desired.routes:
        if route.vrf in found:
            own, inner = found[route.vrf]
            prefix = ipaddress.ip_network(route.to)
            own.add(prefix)
            if places.get(route.device) == route.vrf:
                inner.add(prefix)
    return found


def _inside(prefix: _Prefix, other: _Prefix) -> bool:
    return prefix.version == other.version and prefix.subnet_of(other)


def _devices(route: RouteState, names: dict[int, str]) -> set[str]:
    hops = route.message.get_attr("RTA_MULTIPATH") or ()
    return {route.device, *(names.get(hop["oif"], "") for hop in hops)}


def _has_gateway(route: RouteState) -> bool:
    return any(route.message.get_attr(name) for name in ("RTA_GATEWAY", "RTA_VIA", "RTA_MULTIPATH"))


def essentials(route: RouteState) -> str:
    """Return what a route and its copy have in common, as text that can be compared."""
    message = route.message
    head = [message["tos"], message["scope"], message["type"], message["flags"] & RTNH_F_ONLINK]
    return json.dumps([head, sorted(copied_attributes(message), key=str)], sort_keys=True, default=str)


def copied_attributes(message) -> list[tuple[str, object]]:
    """Return the attributes of a route for a copy of it, in the form in which pyroute2 takes them."""
    found = []
    for name, value in message["attrs"]:
        if name in _LEFT_OUT:
            continue
        if name == "RTA_MULTIPATH":
            value = [
                {
                    "hops": hop["hops"],
                    "oif": hop["oif"],
                    "flags": hop["flags"] & RTNH_F_ONLINK,
                    "attrs": copied_attributes(hop),
                }
                for hop in value
            ]
        elif isinstance(value, dict) and "attrs" in value:
            value = {"attrs": copied_attributes(value)}
        found.append((name, value))
    return found
