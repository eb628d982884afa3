# SPDX-License-Identifier: Apache-2.0
"""Subnets that may not overlap (OKEP-5193, "IP Addressing"; ovn-kubernetes, validation of attachment definitions).

Networks may overlap with each other unless one workload joins both (`network_selection.py`).
"""

from __future__ import annotations

import ipaddress

from ..common.addressing import overlapping
from ..common.naming import DEFAULT_NETWORK
from ..store.snapshot import StoredObject
from .networks import Network


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


def with_provider_networks(network: Network, nodes: list[StoredObject]) -> list[str]:
    """Return how a primary network overlaps with other subnets of nodes, which its workloads could then not reach.

    These are the addresses that a node reported: on the provider network with their subnets, its next hops, and its
    addresses in the underlay.
    """
    if network.is_default or network.role != "Primary":
        return []
    taken: dict[str, str] = {}
    for node in nodes:
        gateway = node.spec.get("gateway") or {}
        for address in gateway.get("addresses", ()):
            taken.setdefault(str(ipaddress.ip_interface(address).network), f"the provider network of node {node.name}")
        for address in gateway.get("next_hops", ()):
            taken.setdefault(address, f"the default gateway of node {node.name}")
        for address in [*(node.spec.get("encap_ips") or ()), *(node.spec.get("addresses") or ())]:
            taken.setdefault(address, f"an address of node {node.name}")
    return [
        f"pod or join subnet overlaps: {subnet} with {what}, {other}"
        for other, what in taken.items()
        for subnet in own_subnets(network)
        if not other.lower().startswith("fe80:") and overlapping(subnet, other)
    ]


def missing_families(network: Network, found: dict[str, Network]) -> list[str]:
    """Return which address families of a primary network the cluster lacks."""
    missing = set(network.families) - set(found[DEFAULT_NETWORK].families) if network.role == "Primary" else set()
    return [f"the network has IPv{version} subnets, and the cluster has no IPv{version}" for version in sorted(missing)]


def own_subnets(network: Network) -> list[str]:
    """Return a network's pod and join subnets."""
    return [subnet["cidr"] for subnet in network.subnets] + list(network.join_subnets)
