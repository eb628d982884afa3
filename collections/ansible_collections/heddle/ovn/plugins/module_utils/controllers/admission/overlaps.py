# SPDX-License-Identifier: Apache-2.0
"""Subnets that may not overlap (OKEP-5193, "IP Addressing"; ovn-kubernetes, validation of attachment definitions).

Networks may overlap with each other unless one workload joins both (`network_selection.py`).
"""

from __future__ import annotations

import ipaddress
from bisect import bisect_left
from collections.abc import Iterator

from ...common.addressing import overlapping
from ...common.naming import DEFAULT_NETWORK
from ...store.snapshot import StoredObject
from ..network.networks import Network


def with_shared_subnets(network: Network, found: dict[str, Network], settings: dict) -> list[str]:
    """Return how a network overlaps with ranges common to all networks; Localnet networks have ranges of their own."""
    if network.is_default or network.topology == "Localnet":
        return []
    own = own_subnets(network)
    shared = [("cluster", [subnet["cidr"] for subnet in found[DEFAULT_NETWORK].subnets])] + [
        (label, settings[name])
        for label, name in (
            ("service", "service_subnets"),
            ("default join", "join_subnets"),
            ("masquerade", "masquerade_subnets"),
        )
    ]
    if network.topology == "Layer3":
        shared.append(("transit", settings["transit_subnets"]))
    errors = [
        f"pod or join subnet overlaps: {subnet} with the {label} subnet {other}"
        for label, subnets in shared
        for subnet in own
        for other in subnets
        if overlapping(subnet, other)
    ]
    errors += [
        f"pod or join subnet overlaps: {subnet['cidr']} with the network's own join subnet {join}"
        for subnet in network.subnets
        for join in network.join_subnets
        if overlapping(subnet["cidr"], join)
    ]
    return errors


class ProviderNetworks:
    """The addresses and provider networks that nodes reported, which no pod subnet may have.

    A subnet is compared with those below it, which a search in their order finds, and those around it, of which there
    is one for each length; so the time does not depend on how many nodes there are.
    """

    def __init__(self, nodes: list[StoredObject]) -> None:
        taken: dict[str, str] = {}
        for node in nodes:
            gateway = node.spec.get("gateway") or {}
            for address in gateway.get("addresses", ()):
                network = str(ipaddress.ip_interface(address).network)
                taken.setdefault(network, f"the provider network of node {node.name}")
            for address in gateway.get("next_hops", ()):
                taken.setdefault(address, f"the default gateway of node {node.name}")
            for address in [*(node.spec.get("encap_ips") or ()), *(node.spec.get("addresses") or ())]:
                taken.setdefault(address, f"an address of node {node.name}")
        # The zone of a link-local address, which is no part of a subnet, is not parsed.
        self._taken = [(text, what) for text, what in taken.items() if not text.lower().startswith("fe80:")]
        self._places: dict[tuple[int, int, int], list[int]] = {}
        for place, (text, _what) in enumerate(self._taken):
            found = ipaddress.ip_network(text, strict=False)
            key = found.version, int(found.network_address), found.prefixlen
            self._places.setdefault(key, []).append(place)
        self._order = sorted(self._places)
        self._lengths = sorted({(version, length) for version, _first, length in self._order})

    def overlaps(self, network: Network) -> list[str]:
        """Return how a primary network overlaps with them, so that its workloads could not reach them."""
        if network.is_default or network.role != "Primary":
            return []
        subnets = own_subnets(network)
        found = {(place, number) for number, subnet in enumerate(subnets) for place in self._of(subnet)}
        return [
            f"pod or join subnet overlaps: {subnets[number]} with {what}, {other}"
            for place, number in sorted(found)
            for other, what in [self._taken[place]]
        ]

    def _of(self, subnet: str) -> Iterator[int]:
        """Yield the places of those that overlap with a subnet."""
        wanted = ipaddress.ip_network(subnet)
        version, first, last = wanted.version, int(wanted.network_address), int(wanted.broadcast_address)
        for place in range(bisect_left(self._order, (version, first, 0)), len(self._order)):
            key = self._order[place]
            if key[0] != version or key[1] > last:
                break
            yield from self._places[key]
        for other, length in self._lengths:
            if other == version and length < wanted.prefixlen:
                bits = wanted.max_prefixlen - length
                around = first >> bits << bits
                # One that begins where the subnet does was found above.
                if around != first:
                    yield from self._places.get((version, around, length), ())


def missing_families(network: Network, found: dict[str, Network]) -> list[str]:
    """Return which address families of a primary network the cluster lacks."""
    missing = set(network.families) - set(found[DEFAULT_NETWORK].families) if network.role == "Primary" else set()
    return [f"the network has IPv{version} subnets, and the cluster has no IPv{version}" for version in sorted(missing)]


def own_subnets(network: Network) -> list[str]:
    """Return a network's pod and join subnets."""
    return [subnet["cidr"] for subnet in network.subnets] + list(network.join_subnets)
