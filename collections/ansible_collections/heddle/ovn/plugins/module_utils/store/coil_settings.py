# SPDX-License-Identifier: Apache-2.0
"""The setting `coil`: how hosts advertise the blocks of address pools to each other and to routers (BGP, RFC 4271)."""

from __future__ import annotations

import ipaddress

SETTING = "coil"
DEFAULTS = {"as_number": 64512, "mesh": True, "routers": []}
_MOST_AS = 2**32 - 1
_ROUTER = {"address", "as_number", "nodes"}


def complete(value: dict) -> dict:
    """Return a setting without mistakes with its defaults filled in."""
    return {**DEFAULTS, **value}


def mistakes(value) -> list[str]:
    """Return the errors in the setting, one line each.

    `as_number` is that of the hosts. With `mesh` each is a neighbour of all others, which have to be on one link. Each
    of `routers` has an `address`, its `as_number` (that of the hosts if left out), and the `nodes` that it is a
    neighbour of (all if left out), as the nodes of its rack.
    """
    if not isinstance(value, dict):
        return [f"must be a mapping, not {value!r}"]
    found = [f"unknown field {name}; known are {', '.join(DEFAULTS)}" for name in sorted(set(value) - set(DEFAULTS))]
    whole = complete(value)
    if not _is_as(whole["as_number"]):
        found.append(f"as_number: must be a number from 1 to {_MOST_AS}, not {whole['as_number']!r}")
    if not isinstance(whole["mesh"], bool):
        found.append(f"mesh: must be true or false, not {whole['mesh']!r}")
    if not isinstance(whole["routers"], list):
        return [*found, f"routers: must be a list, not {whole['routers']!r}"]
    seen = set()
    for number, router in enumerate(whole["routers"]):
        if not isinstance(router, dict) or "address" not in router or set(router) - _ROUTER:
            found.append(f"routers: entry {number}: must have address, and may have as_number and nodes")
            continue
        if not _is_address(router["address"]) or router["address"] in seen:
            found.append(f"routers: entry {number}: {router['address']!r} is no IP address, or there twice")
        seen.add(str(router["address"]))
        if not _is_as(router.get("as_number", 1)):
            found.append(f"routers: entry {number}: as_number must be a number from 1 to {_MOST_AS}")
        nodes = router.get("nodes", [])
        if not isinstance(nodes, list) or not all(isinstance(node, str) for node in nodes):
            found.append(f"routers: entry {number}: nodes must be a list of hosts")
    return found


def _is_as(value) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _MOST_AS


def _is_address(value) -> bool:
    try:
        return isinstance(value, str) and ipaddress.ip_address(value) is not None
    except ValueError:
        return False
