# SPDX-License-Identifier: Apache-2.0
"""Health check ports of Services with the external traffic policy Local: which nodes a load balancer should use."""

from __future__ import annotations

from ...common.addressing import family
from ...types.health_check import HealthCheck
from ..common.entrances import node_port_addresses


def render_health_checks(plan: dict, node: str) -> dict[tuple[str, int], HealthCheck]:
    """Return what a node answers by its own addresses and port; nothing on a node without a provider network.

    Every node answers, as in Kubernetes: one without an endpoint that packets must not come to it.
    """
    found: dict[tuple[str, int], HealthCheck] = {}
    addresses = node_port_addresses(plan, node)
    for services in plan.get("services", {}).values():
        for service, described in services.items():
            port = described.get("external", {}).get("health_check_port")
            namespace, _slash, name = service.partition("/")
            for address in addresses if port else ():
                found[address, port] = HealthCheck(namespace, name, _local_endpoints(described, node))
    return found


def _local_endpoints(service: dict, node: str) -> int:
    """Return how many ready endpoints are on the node; one with addresses of both families counts once."""
    endpoints = (one for port in service["ports"] for one in port["endpoints"])
    found = {one["address"] for one in endpoints if one["node"] == node and one.get("ready", True)}
    return max(sum(family(address) == version for address in found) for version in (4, 6))
