# SPDX-License-Identifier: Apache-2.0
"""The setting `coil`: how hosts advertise the blocks of address pools, and the gateway of workloads with an address.

BGP (RFC 4271) with a full mesh or route reflectors (RFC 4456), an autonomous system for each rack (RFC 7938), or OSPF
(RFC 2328, RFC 5340); BFD for all of them (RFC 5880, RFC 5881).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from ..types.bird_configuration import BGP, OSPF, PROTOCOLS
from ..types.routed_workloads import LINK_LOCAL, NODE_ADDRESS

SETTING = "coil"
BFD_DEFAULTS = {"interval": 100, "multiplier": 3}
OSPF_DEFAULTS = {"area": "0.0.0.0", "interfaces": []}
DEFAULTS = {
    "protocol": BGP,
    "as_number": 64512,
    "racks": [],
    "mesh": True,
    "route_reflectors": [],
    "routers": [],
    "hold_time": 90,
    "ospf": None,
    "bfd": None,
    "gateway": LINK_LOCAL,
}
_MOST_AS = 2**32 - 1
_RACK = {"as_number", "nodes"}
_ROUTER = {"address", "as_number", "nodes"}
# What a line of BIRD's configuration may have as the name or pattern of an interface.
_INTERFACE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_*?")


def complete(value: dict) -> dict:
    """Return a setting without mistakes with its defaults filled in; what is switched off is None."""
    whole = {**DEFAULTS, **value}
    bfd, ospf = whole["bfd"], whole["ospf"]
    whole["bfd"] = None if bfd is None or bfd is False else {**BFD_DEFAULTS, **({} if bfd is True else bfd)}
    whole["ospf"] = {**OSPF_DEFAULTS, **(ospf or {})} if whole["protocol"] == OSPF else None
    return whole


def mistakes(value) -> list[str]:
    """Return the errors in the setting, one line each.

    `gateway` is the IPv4 gateway of workloads. `as_number` is that of the hosts; hosts in `racks` have the one of their
    rack. Within an autonomous system all hosts are neighbours (`mesh`), or with `route_reflectors` only of those. Each
    of `routers` has an `address`, its `as_number` (that of the host if left out), and the `nodes` that it is a
    neighbour of (all if left out).
    """
    if not isinstance(value, dict):
        return [f"must be a mapping, not {value!r}"]
    unknown = sorted(set(value) - set(DEFAULTS), key=str)
    found = [f"unknown field {name}; known are {', '.join(DEFAULTS)}" for name in unknown]
    whole = {**DEFAULTS, **value}
    if whole["protocol"] not in PROTOCOLS:
        found.append(f"protocol: must be one of {', '.join(PROTOCOLS)}, not {whole['protocol']!r}")
    if whole["gateway"] not in (LINK_LOCAL, NODE_ADDRESS):
        found.append(f"gateway: must be one of {LINK_LOCAL}, {NODE_ADDRESS}, not {whole['gateway']!r}")
    if not _is_number(whole["as_number"], 1, _MOST_AS):
        found.append(f"as_number: must be a number from 1 to {_MOST_AS}, not {whole['as_number']!r}")
    if not isinstance(whole["mesh"], bool):
        found.append(f"mesh: must be true or false, not {whole['mesh']!r}")
    # RFC 4271, section 4.2: zero, or at least three seconds. Zero would keep routes of dead hosts for ever.
    if not _is_number(whole["hold_time"], 3, 65535):
        found.append(f"hold_time: must be a number of seconds from 3 to 65535, not {whole['hold_time']!r}")
    if not _are_names(whole["route_reflectors"]):
        found.append(f"route_reflectors: must be a list of hosts, not {whole['route_reflectors']!r}")
    for name, check in (("racks", _rack_mistakes), ("routers", _router_mistakes)):
        if isinstance(whole[name], list):
            found += [f"{name}: {mistake}" for mistake in check(whole[name])]
        else:
            found.append(f"{name}: must be a list, not {whole[name]!r}")
    found += [f"bfd: {mistake}" for mistake in _bfd_mistakes(whole["bfd"])]
    return found + [f"ospf: {mistake}" for mistake in _ospf_mistakes(whole["ospf"], whole["protocol"])]


def named_nodes(value: dict) -> Iterator[tuple[str, str]]:
    """Yield the field and the name of each host that a setting without mistakes names."""
    whole = complete(value)
    for name in whole["route_reflectors"]:
        yield "route_reflectors", name
    for field in ("racks", "routers"):
        for entry in whole[field]:
            for name in entry.get("nodes", ()):
                yield field, name


def _rack_mistakes(racks: list) -> Iterator[str]:
    numbers, placed = set(), set()
    for number, rack in enumerate(racks):
        if not isinstance(rack, dict) or set(rack) != _RACK or not _are_names(rack["nodes"]):
            yield f"entry {number}: must have as_number and nodes, a list of hosts"
            continue
        if not _is_number(rack["as_number"], 1, _MOST_AS):
            yield f"entry {number}: as_number must be a number from 1 to {_MOST_AS}"
        elif rack["as_number"] in numbers:
            # RFC 4271, section 9.1.2: a route whose AS path has the own number is a loop, so racks would not learn
            # each other's blocks.
            yield f"entry {number}: another rack has as_number {rack['as_number']}"
        else:
            numbers.add(rack["as_number"])
        for name in sorted(placed & set(rack["nodes"])):
            yield f"entry {number}: {name} is in another rack"
        placed |= set(rack["nodes"])


def _router_mistakes(routers: list) -> Iterator[str]:
    seen = set()
    for number, router in enumerate(routers):
        if not isinstance(router, dict) or "address" not in router or set(router) - _ROUTER:
            yield f"entry {number}: must have address, and may have as_number and nodes"
            continue
        address = _address(router["address"])
        if address is None or address in seen:
            yield f"entry {number}: {router['address']!r} is no IP address, or there twice"
        seen.add(address)
        if not _is_number(router.get("as_number", 1), 1, _MOST_AS):
            yield f"entry {number}: as_number must be a number from 1 to {_MOST_AS}"
        if not _are_names(router.get("nodes", [])):
            yield f"entry {number}: nodes must be a list of hosts"


def _bfd_mistakes(bfd) -> Iterator[str]:
    if bfd is None or isinstance(bfd, bool):
        return
    if not isinstance(bfd, dict) or set(bfd) - set(BFD_DEFAULTS):
        yield f"must be true, false, or a mapping with {' and '.join(BFD_DEFAULTS)}, not {bfd!r}"
        return
    whole = {**BFD_DEFAULTS, **bfd}
    if not _is_number(whole["interval"], 10, 60000):
        yield f"interval: must be a number of milliseconds from 10 to 60000, not {whole['interval']!r}"
    if not _is_number(whole["multiplier"], 2, 255):
        yield f"multiplier: must be a number from 2 to 255, not {whole['multiplier']!r}"


def _ospf_mistakes(ospf, protocol) -> Iterator[str]:
    if ospf is None:
        if protocol == OSPF:
            yield "must have interfaces, the NICs that neighbours are on, with protocol ospf"
        return
    if not isinstance(ospf, dict) or set(ospf) - set(OSPF_DEFAULTS):
        yield f"must be a mapping with {' and '.join(OSPF_DEFAULTS)}, not {ospf!r}"
        return
    whole = {**OSPF_DEFAULTS, **ospf}
    try:
        ipaddress.IPv4Address(whole["area"])
    except ValueError:
        yield f"area: must be written as an IPv4 address, such as 0.0.0.0, not {whole['area']!r}"
    names = whole["interfaces"]
    if not _are_names(names) or not names or not all(name and set(name) <= _INTERFACE for name in names):
        yield f"interfaces: must be a list of NICs or patterns such as eth*, not {names!r}"


def _is_number(value, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _are_names(value) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def in_standard_notation(settings: dict) -> dict:
    """Return settings without mistakes whose routers have addresses as the `ipaddress` module writes them."""
    routers = [{**router, "address": str(_address(router["address"]))} for router in settings.get("routers") or ()]
    return {**settings, "routers": routers} if routers else settings


def _address(value):
    try:
        return ipaddress.ip_address(value) if isinstance(value, str) else None
    except ValueError:
        return None
