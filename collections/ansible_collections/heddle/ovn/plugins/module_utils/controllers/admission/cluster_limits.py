# SPDX-License-Identifier: Apache-2.0
"""Checks that the address ranges are large enough for the allocated ids.

Many addresses are a range's base plus an id (join, transit, masquerade), so a range that is too small shows only once
the ids are known.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

from ...common.addressing import family, free_addresses, network_of
from ...store.snapshot import Snapshot, StoredObject
from ..allocation.allocation import workload_subnets
from ..allocation.router_addresses import reserved_addresses
from ..allocation.tunnel_keys import key_ranges
from ..network.networks import Network

_REMEDY = "give a larger range"


def shortages(snapshot: Snapshot, found: dict[str, Network]) -> list[tuple[str, str, str]]:
    """Return what is too small, as (object key, rule, remedy)."""
    nodes = snapshot.of_kind("Node")[:1]
    highest = max((int(value) for value in snapshot.allocations.get("node-id", {}).values()), default=0)
    return [
        (network.object_key or "Settings", rule, remedy)
        for network in found.values()
        for rule, remedy in _of_network(snapshot, network, nodes, highest)
    ] + list(_local_keys(snapshot, found))


def _local_keys(snapshot: Snapshot, found: dict[str, Network]) -> Iterator[tuple[str, str, str]]:
    """Networks beyond the datapath keys of a host, as if it had all networks; those with a lower id come first."""
    most, used = key_ranges(snapshot).local, 0
    if most is None:
        return
    for network in sorted(found.values(), key=lambda one: int(snapshot.get("network-id", one.name) or 0)):
        used += _local_datapaths(network)
        if used > most:
            rule = f"with vxlan a host has {most} keys for switches and routers of its own, and {used} are needed"
            yield network.object_key or "Settings", rule, "remove networks, or make a cluster with geneve"


def _local_datapaths(network: Network) -> int:
    """Return how many switches and routers of a network each host has for itself."""
    # Gateway router and external switch; on Layer3 also node switch, cluster router and join switch.
    outward = 2 if network.role == "Primary" and not network.is_mesh else 0
    if network.topology == "Layer3":
        return 2 + outward + (1 if outward else 0)
    return 1 if network.topology == "Localnet" else outward


def _of_network(
    snapshot: Snapshot, network: Network, nodes: list[StoredObject], highest: int
) -> Iterator[tuple[str, str]]:
    for node in nodes:
        for subnet in workload_subnets(snapshot, network, node.name):
            if next(free_addresses(subnet, reserved_addresses(network, subnet)), None) is None:
                yield f"subnet {subnet} has no room for gateway, management port and a workload", _REMEDY
    settings, identifier = snapshot.settings, int(snapshot.get("network-id", network.name) or 0)
    for version in network.families:
        needs = []
        if network.topology == "Layer3":
            needs = [("transit subnet", settings["transit_subnets"], highest)]
        elif network.is_transit_routed:
            # The chosen one is as large as the configured one.
            needs = [("transit subnet", settings["transit_subnets"], 2 * highest + 1)]
        if network.role == "Primary" and not network.is_mesh:
            needs.append(("join subnet", list(network.join_subnets), highest))
            if not network.is_default:
                needs.append(("masquerade subnet", settings["masquerade_subnets"], 10 + 2 * identifier))
        for what, ranges, offset in needs:
            mine = [text for text in ranges if family(text) == version]
            if not mine:
                yield f"there is no IPv{version} {what}", f"add one to the settings, or leave IPv{version} out"
            yield from (
                (f"{what} {text} is too small: number {offset} of it is needed", _REMEDY)
                for text in mine
                if _size(text) <= offset
            )


@functools.lru_cache(maxsize=8192)
def _size(subnet: str) -> int:
    return network_of(subnet).num_addresses
