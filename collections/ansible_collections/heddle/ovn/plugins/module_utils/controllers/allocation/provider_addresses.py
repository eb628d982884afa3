# SPDX-License-Identifier: Apache-2.0
"""Addresses of a provider network that its hosts, routers, EgressIPs and load balancers have.

A Localnet network on the same segment has the same subnets, perhaps: no workload of it gets one of these. Where such an
address comes later, the workload that has it keeps it.
"""

from __future__ import annotations

from functools import cached_property

from ...common.naming import PHYSICAL_NETWORK
from ...store.snapshot import Snapshot
from ..admission.host_addresses import reserved_addresses
from ..network.networks import Network


class ProviderAddresses:
    """Those of the provider network that the hosts of a snapshot are connected to."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def taken_on(self, network: Network) -> list[str]:
        """Return the addresses and subnets that are not for workloads of a network; none on another segment."""
        if network.topology != "Localnet" or network.physical_network != PHYSICAL_NETWORK:
            return []
        return self._taken if network.vlan in self._vlans else []

    @cached_property
    def _vlans(self) -> set[int | None]:
        gateways = (node.spec.get("gateway") for node in self._snapshot.of_kind("Node"))
        return {gateway.get("vlan") for gateway in gateways if gateway}

    @cached_property
    def _taken(self) -> list[str]:
        found = list(reserved_addresses(self._snapshot))
        for entry in self._snapshot.of_kind("EgressIP"):
            found += entry.spec["egressIPs"]
        for entry in self._snapshot.of_kind("LoadBalancerPool"):
            found += entry.spec["subnets"]
        return found
