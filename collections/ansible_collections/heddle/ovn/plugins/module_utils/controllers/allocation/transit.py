# SPDX-License-Identifier: Apache-2.0
"""The transit subnets of Layer2 primary networks (OKEP-5094, "Transit subnet conflict", option 4)."""

from __future__ import annotations

from ...common.addressing import family, network_of, overlapping
from ...common.naming import DEFAULT_NETWORK
from ...store.snapshot import Snapshot
from ..network.networks import Network
from .pools import AllocationFailure

ATTEMPTS = 10


def transit_subnet_pool(network: str) -> str:
    """Name of the pool with a network's transit subnets; its owners are `v4` and `v6`."""
    return f"transit-subnet/{network}"


def chosen_transit_subnets(snapshot: Snapshot, network: Network) -> list[str]:
    """Return the transit subnets of a network, IPv4 first (OKEP-5094).

    Those that are not allocated yet are missing.
    """
    found = (snapshot.get(transit_subnet_pool(network.name), f"v{version}") for version in network.families)
    return [subnet for subnet in found if subnet is not None]


def transit_neighbours(network: Network, found: dict[str, Network], settings: dict) -> list[str]:
    """Return the subnets that a network's transit subnet must not overlap with."""
    cluster = [subnet["cidr"] for subnet in found[DEFAULT_NETWORK].subnets]
    own = [subnet["cidr"] for subnet in network.subnets] + list(network.join_subnets)
    return own + cluster + settings["service_subnets"] + settings["join_subnets"] + settings["masquerade_subnets"]


def choose_transit_subnets(snapshot: Snapshot, network: Network, found: dict[str, Network]) -> list[AllocationFailure]:
    """Store a network's transit subnets; a chosen one stays as long as it overlaps with nothing."""
    settings, others = snapshot.settings, transit_neighbours(network, found, snapshot.settings)
    before = snapshot.allocations.get(transit_subnet_pool(network.name), {})
    now = snapshot.allocations[transit_subnet_pool(network.name)] = {}
    failures = []
    for candidate in settings["transit_subnets"]:
        owner = f"v{family(candidate)}"
        if family(candidate) not in network.families or owner in now:
            continue
        kept = before.get(owner)
        try:
            now[owner] = kept if kept and _fits(kept, candidate, others) else first_clear(candidate, others)
        except ValueError as error:
            failures.append((network.object_key, str(error), "choose another subnet"))
    return failures


def _fits(kept: str, candidate: str, others: list[str]) -> bool:
    same = network_of(kept).prefixlen == network_of(candidate).prefixlen
    return same and not any(overlapping(kept, other) for other in others)


def first_clear(candidate: str, others: list[str]) -> str:
    """Return the candidate, moved past any of `others` that it overlaps.

    As in ovn-kubernetes, it continues right behind the larger one of the two, at most ten times. ValueError when no
    free subnet is found.
    """
    subnet = network_of(candidate)
    for _attempt in range(ATTEMPTS + 1):
        clash = next((other for other in others if overlapping(str(subnet), other)), None)
        if clash is None:
            return str(subnet)
        larger = min(subnet, network_of(clash), key=lambda one: one.prefixlen)
        after = int(larger.broadcast_address) + 1
        if after >> subnet.max_prefixlen:
            break
        subnet = type(subnet)((after, subnet.prefixlen))
    raise ValueError(f"no transit subnet beside {', '.join(others)} within {ATTEMPTS} attempts from {candidate} on")
