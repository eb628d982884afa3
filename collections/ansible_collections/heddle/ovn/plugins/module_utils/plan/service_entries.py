# SPDX-License-Identifier: Apache-2.0
"""The plan's entry for each Service: its network, addresses and endpoints; of a headless one the addresses alone."""

from __future__ import annotations

from ..common.addressing import family
from ..controllers.network.networks import Network
from ..controllers.services.cluster_ips import SERVICE, cluster_ips, is_headless, service_owner
from ..controllers.services.load_balancers import announcers
from ..controllers.services.local_ports import local_ports
from ..controllers.services.node_ports import health_check_port, node_ports
from ..controllers.services.service_endpoints import Endpoint, ServiceEndpoints
from ..store.snapshot import Snapshot, StoredObject


def service_entries(snapshot: Snapshot, found: dict[str, Network]) -> dict[str, dict]:
    """Return the Services by network and `namespace/name`; `found` are the networks in effect.

    Addresses of families that a Service's network lacks are left out, and so is a Service without any other.
    """
    services = [service for service in snapshot.of_kind(SERVICE) if not is_headless(service)]
    if not services:
        return {}
    endpoints = ServiceEndpoints(snapshot, found)
    entries: dict[str, dict] = {}
    for service in services:
        network = endpoints.served(service)
        addresses = [
            text for text in cluster_ips(snapshot, service) if network is not None and family(text) in network.families
        ]
        if not addresses:
            continue
        entries.setdefault(network.name, {})[service_owner(service)] = {
            "addresses": addresses,
            # Seconds for which a client stays with an endpoint, 0 for none.
            "affinity": service.spec["affinity"],
            "internal_traffic_policy": service.spec["internalTrafficPolicy"],
            "ports": [
                {
                    "protocol": port["protocol"],
                    "port": port["port"],
                    "endpoints": [_endpoint(one) for one in chosen],
                    **({"node_port": node_port} if node_port else {}),
                    **({"local_port": local_port} if local_port else {}),
                }
                for port, chosen, node_port, local_port in zip(
                    service.spec["ports"],
                    endpoints.of(service),
                    node_ports(snapshot, service),
                    local_ports(snapshot, service),
                    strict=True,
                )
            ],
            **_external(service, snapshot, {family(text) for text in addresses}),
        }
    return entries


def _endpoint(endpoint: Endpoint) -> dict:
    # Few are not ready, so `ready` is there for these only.
    found = {"address": endpoint.address, "port": endpoint.port, "node": endpoint.node}
    return found if endpoint.ready else {**found, "ready": False}


def headless_entries(snapshot: Snapshot, found: dict[str, Network]) -> dict[str, dict]:
    """Return `headless`: addresses by network, Service and name of the endpoint; nothing without such a Service.

    A Service without a ready endpoint has no addresses, as in Kubernetes, and neither has one that has an address of no
    family of its network. No workload has the name of such a Service instead.
    """
    services = snapshot.of_kind(SERVICE)
    if not services or not snapshot.settings.get("cluster_domain"):
        return {}
    endpoints = ServiceEndpoints(snapshot, found)
    entries: dict[str, dict] = {}
    for service in services:
        network = endpoints.served(service)
        if network is None:
            continue
        if is_headless(service):
            entries.setdefault(network.name, {})[service_owner(service)] = endpoints.addresses(service)
        elif not any(family(text) in network.families for text in cluster_ips(snapshot, service)):
            entries.setdefault(network.name, {})[service_owner(service)] = {}
    return {"headless": entries} if entries else {}


def _external(service: StoredObject, snapshot: Snapshot, families: set[int]) -> dict:
    """Return `external` with how a Service is reached from beyond its network; nothing for one that is not."""
    policy = service.spec.get("externalTrafficPolicy")
    if policy is None:
        return {}
    port = health_check_port(snapshot, service)
    return {
        "external": {
            "traffic_policy": policy,
            "addresses": [text for text in service.spec["externalIPs"] if family(text) in families],
            "load_balancer": [
                {"address": address, "node": node}
                for address, node in announcers(service).items()
                if family(address) in families
            ],
            "source_ranges": service.spec["loadBalancerSourceRanges"],
            **({"health_check_port": port} if port else {}),
        }
    }
