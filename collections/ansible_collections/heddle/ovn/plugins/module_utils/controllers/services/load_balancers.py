# SPDX-License-Identifier: Apache-2.0
"""Which host announces which load balancer address of a Service, and what the status of the Service says about it.

All addresses of a Service with an EgressService are at one host, by which its endpoints leave.

`status.loadBalancer.ingress` of a Service has its addresses; `status.announcers`, which is Heddle's own, the host of
each, which the next assignment keeps as far as possible.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

from ...api.services.external_access import LOAD_BALANCER, LOCAL
from ...common.addressing import family
from ...store.snapshot import Snapshot, StoredObject
from ..allocation.address_assignment import Candidate, assigned_hosts
from ..allocation.allocation import nodes_with_subnets
from ..conditions import FALSE, TRUE, described
from ..egress.egress_assignment import not_given_up
from ..egress.egress_services import egress_service_of, selected_nodes, store_hosts
from ..egress.precedence import EGRESS_SERVICE_IN_EFFECT, store_in_effect
from ..network.networks import Network, networks
from ..node_labels import EGRESS_SERVICE
from .cluster_ips import FAMILY_NAMES, SERVICE, families_of, is_headless, service_owner
from .load_balancer_addresses import (
    CLASS,
    LOAD_BALANCER_POOL,
    Space,
    announcing_hosts,
    is_load_balancer,
    load_balancer_addresses,
    load_balancer_families,
    load_balancer_pool,
    requested_address,
)
from .node_ports import has_node_ports
from .service_endpoints import ServiceEndpoints

ANNOUNCED = "Announced"


def announcers(service: StoredObject) -> dict[str, str]:
    """Return the host of each load balancer address of a Service that has one."""
    return service.status.get("announcers") or {}


def assign_announcers(
    snapshot: Snapshot, live: Collection[str] | None = None, kept: Mapping[str, str] | None = None
) -> None:
    """Store in each Service which host announces which of its addresses.

    `live` are the hosts that may hold addresses, None for all of the inventory; `kept` as for `assigned_hosts`.
    """
    services = []
    for entry in snapshot.of_kind(SERVICE):
        if entry.spec.get("type") == LOAD_BALANCER:
            services.append(entry)
        elif announcers(entry):
            # It was of this type before; another Service may have its addresses now.
            snapshot.objects[entry.key] = entry.with_status(announcers=None)
    if not services and not snapshot.of_kind(EGRESS_SERVICE):
        store_in_effect(snapshot, EGRESS_SERVICE_IN_EFFECT, {})
        return
    endpoints, able = ServiceEndpoints(snapshot, networks(snapshot)), _able(snapshot)
    wanted: dict[str, Collection[str]] = {}
    owners: dict[str, StoredObject] = {}
    together: list[list[str]] = []
    for service in services:
        network = endpoints.served(service)
        nodes = able(network) if network else frozenset()
        selected = selected_nodes(snapshot, service, network)
        if selected is not None:
            nodes &= selected
            own = load_balancer_addresses(snapshot, service) if is_load_balancer(service) else ()
            together.append([address for address in own if family(address) in network.families])
        for address in load_balancer_addresses(snapshot, service) if is_load_balancer(service) else ():
            version, wanted[address], owners[address] = family(address), (), service
            if network and version in network.families:
                is_local = service.spec["externalTrafficPolicy"] == LOCAL
                wanted[address] = nodes & _answering(endpoints, service, version) if is_local else nodes
    before = {address: node for service in services for address, node in announcers(service).items()}
    hosts = [one for one in announcing_hosts(snapshot) if live is None or one.name in live]
    holders = assigned_hosts(wanted, hosts, before, together, kept)
    own: dict[str, dict[str, str]] = {}
    for address, node in holders.items():
        own.setdefault(owners[address].key, {})[address] = node
    for service in services:
        snapshot.objects[service.key] = service.with_status(announcers=own.get(service.key))
    store_hosts(snapshot, endpoints)


def service_nodes(snapshot: Snapshot, found: dict[str, Network]) -> Iterator[tuple[str, list[str]]]:
    """Yield for Services that are reached from beyond their network the network and the nodes that packets come in by.

    With the external traffic policy Local these are the nodes of its endpoints, which need not be workloads. A network
    that packets come in to by every node has these once, however many of its Services need them.
    """
    services = [one for one in snapshot.of_kind(SERVICE) if one.spec.get("externalTrafficPolicy")]
    endpoints = ServiceEndpoints(snapshot, found) if services else None
    everywhere = [node.name for node in snapshot.of_kind("Node") if node.spec.get("gateway")]
    known, entered = set(everywhere), set()
    for service in services:
        network = endpoints.served(service)
        if network is None or is_headless(service):
            continue
        if service.spec["externalTrafficPolicy"] == LOCAL:
            yield network.name, sorted(_local(endpoints, service) & known)
        elif not (has_node_ports(service) or service.spec["externalIPs"]):
            yield network.name, sorted(set(announcers(service).values()))
        elif network.name not in entered:
            entered.add(network.name)
            yield network.name, everywhere


def _local(endpoints: ServiceEndpoints, service: StoredObject) -> set[str | None]:
    """Return the nodes of the endpoints of a Service."""
    return {one.node for port in endpoints.of(service) for one in port}


def _answering(endpoints: ServiceEndpoints, service: StoredObject, version: int) -> set[str | None]:
    """Return the nodes whose own endpoints answer at an address of a family of the Service.

    At all its ports, or where there is no such node at some of them. Ports without any endpoint do not count.
    """
    by_port = [{one.node for one in port if family(one.address) == version} - {None} for port in endpoints.of(service)]
    by_port = [nodes for nodes in by_port if nodes]
    return (set.intersection(*by_port) or set.union(*by_port)) if by_port else set()


def _able(snapshot: Snapshot) -> Callable[[Network], frozenset[str]]:
    """Return a function for the nodes that can have a network, which finds them once for all Services of it."""
    everywhere = frozenset(node.name for node in snapshot.of_kind("Node"))
    known: dict[str, frozenset[str]] = {}

    def able(network: Network) -> frozenset[str]:
        if network.name not in known:
            known[network.name] = frozenset(nodes_with_subnets(snapshot, network, everywhere))
        return known[network.name]

    return able


def ingress(service: StoredObject) -> dict:
    """Return `status.loadBalancer`: the addresses that a host announces."""
    return {"ingress": [{"ip": address, "ipMode": "VIP"} for address in announcers(service)]} if announcers(service) \
        else {}  # fmt: skip


def announcement(
    service: StoredObject, snapshot: Snapshot, endpoints: ServiceEndpoints, hosts: Collection[Candidate]
) -> dict | None:
    """Return the condition Announced of a Service of the type LoadBalancer, None for others.

    `hosts` are `announcing_hosts`. The condition is about the families that the network has; others are in `Ready`.
    """
    network = endpoints.network(service)
    if service.spec.get("type") != LOAD_BALANCER:
        return None
    chosen = service.spec["loadBalancerClass"]
    if not is_load_balancer(service):
        message = f"the class {chosen} is not Heddle's, which is {CLASS}"
        return described(ANNOUNCED, FALSE, "LoadBalancerClassNotSupported", message)
    held, families = announcers(service), load_balancer_families(snapshot, service, network)
    if not families:
        names = " and no ".join(FAMILY_NAMES[one] for one in families_of(service, snapshot))
        return described(ANNOUNCED, FALSE, "IPFamilyNotOnNetwork", f"network {network.name} has no {names}")
    for version in families:
        address = snapshot.get(load_balancer_pool(version), service_owner(service))
        if address is None:
            return described(ANNOUNCED, FALSE, *_without_address(service, snapshot, version))
        if address not in held:
            return described(ANNOUNCED, FALSE, *_without_host(service, address, snapshot, hosts))
        if held[address] not in {one.name for one in hosts}:
            return described(ANNOUNCED, FALSE, *not_given_up(address, held[address]))
        # Where the host has not given the address up.
        is_local = service.spec["externalTrafficPolicy"] == LOCAL
        if is_local and held[address] not in _answering(endpoints, service, version):
            message = f"{address} is at {held[address]}, which has no ready endpoint any more: apply the manifests"
            return described(ANNOUNCED, FALSE, "NoLocalEndpoints", message)
    return described(ANNOUNCED, TRUE, "Announced", ", ".join(f"{one} by {node}" for one, node in held.items()))


def _without_address(service: StoredObject, snapshot: Snapshot, version: int) -> tuple[str, str]:
    wish = requested_address(service, version)
    space = Space(snapshot, version)
    if wish and space.has(wish):
        pool = snapshot.allocations.get(load_balancer_pool(version), {})
        holder = next((owner for owner, value in pool.items() if value == wish), "another Service")
        return "AddressInUse", f"{wish} is an address of Service {holder}"
    if wish:
        return "AddressNotInPool", f"{wish} is in no {LOAD_BALANCER_POOL}"
    some = any(family(text) == version for one in snapshot.of_kind(LOAD_BALANCER_POOL) for text in one.spec["subnets"])
    if some:
        return "PoolExhausted", f"every IPv{version} address of the pools is taken"
    return "NoPool", f"no {LOAD_BALANCER_POOL} has IPv{version} addresses"


def _without_host(
    service: StoredObject, address: str, snapshot: Snapshot, hosts: Collection[Candidate]
) -> tuple[str, str]:
    if not assigned_hosts({address: None}, hosts, {}):
        return "NoMatchingNodeFound", f"{address} is in the provider subnets of no host that may announce it"
    if egress_service_of(snapshot, service):
        message = f"no host that the EgressService of this name permits may announce {address} with the others"
        return "NoMatchingNodeFound", message
    if service.spec["externalTrafficPolicy"] == LOCAL:
        return "NoLocalEndpoints", f"no host that may announce {address} has a ready endpoint (externalTrafficPolicy)"
    return "NoMatchingNodeFound", f"the network of the Service is on no host that may announce {address}"
