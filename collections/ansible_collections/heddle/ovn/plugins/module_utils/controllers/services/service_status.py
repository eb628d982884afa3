# SPDX-License-Identifier: Apache-2.0
"""Writes the status of Services and EndpointSlices: addresses, families, and whether clients find endpoints."""

from __future__ import annotations

from ...api.kinds.endpoint_slice import FQDN
from ...api.services.external_access import CLUSTER_IP, LOCAL
from ...common.addressing import is_within
from ...common.text.some_of import some_of
from ...store.snapshot import Snapshot, StoredObject
from ..admission.host_addresses import addresses_of_hosts
from ..coil.membership import pool_of
from ..conditions import FALSE, SERVICE_READY, TRUE, described, with_conditions
from ..network.networks import Network, networks
from .cluster_ips import FAMILY_NAMES, SERVICE, cluster_ips, families_of, is_alias, is_headless
from .load_balancer_addresses import announcing_hosts
from .load_balancers import announcement, ingress
from .node_ports import health_check_port, node_ports
from .service_endpoints import (
    ENDPOINT_SLICE,
    SERVICE_NAME_LABEL,
    Endpoint,
    ServiceEndpoints,
    is_port_of,
    target_port,
)

_SHOWN = 3


def update_services(snapshot: Snapshot, now: str) -> None:
    """Set the status of every Service and EndpointSlice of a snapshot whose allocations are complete."""
    services = snapshot.of_kind(SERVICE)
    endpoints = ServiceEndpoints(snapshot, networks(snapshot)) if services else None
    hosts = _hosts(snapshot) if services else {}
    announcing = announcing_hosts(snapshot) if services else []
    for service in services:
        ready = described(SERVICE_READY, *_readiness(service, endpoints, hosts, snapshot))
        updated = service.with_status(
            clusterIPs=["None"] if is_headless(service) and not is_alias(service) else cluster_ips(snapshot, service),
            ipFamilies=[FAMILY_NAMES[one] for one in families_of(service, snapshot)],
            nodePorts=ports if any(ports := node_ports(snapshot, service)) else None,
            healthCheckNodePort=health_check_port(snapshot, service) or None,
            loadBalancer=ingress(service),
        )
        announced = announcement(service, snapshot, endpoints, announcing)
        snapshot.objects[service.key] = with_conditions(updated, [ready, *([announced] if announced else [])], now)
    for entry in snapshot.of_kind(ENDPOINT_SLICE):
        ready = described(SERVICE_READY, *_slice_readiness(entry, snapshot))
        snapshot.objects[entry.key] = with_conditions(entry, [ready], now)


def _hosts(snapshot: Snapshot) -> dict[str, set[str]]:
    """Return the hosts of each address of a host; none without EndpointSlices, which alone list such endpoints."""
    found: dict[str, set[str]] = {}
    for address, name in addresses_of_hosts(snapshot) if snapshot.of_kind(ENDPOINT_SLICE) else ():
        found.setdefault(address, set()).add(name)
    return found


def _readiness(
    service: StoredObject, endpoints: ServiceEndpoints, hosts: dict[str, set[str]], snapshot: Snapshot
) -> tuple[str, str, str]:
    if is_alias(service):
        message = (
            "OVN answers no query with the name of another one (CNAME): clients that use this name ask their name "
            "server for it"
        )
        return FALSE, "ExternalNameNotSupported", message
    network = endpoints.network(service)
    if network is None:
        message = f"namespace {service.namespace} is labelled for a primary network and has none that can be used"
        return FALSE, "PrimaryNetworkMissing", message
    if network.is_mesh:
        return FALSE, "NetworkNotSupported", f"network {network.name} is a MeshNetwork, which has no Services"
    missing = [FAMILY_NAMES[one] for one in families_of(service, snapshot) if one not in network.families]
    if missing:
        return FALSE, "IPFamilyNotOnNetwork", f"network {network.name} has no {' and no '.join(missing)}"
    selected = endpoints.selected(service)
    for port in service.spec["ports"] if selected else ():
        if not any(target_port(workload, port) for workload in selected):
            names = some_of([f"{one.namespace}/{one.name}" for one in selected], _SHOWN)
            message = f"targetPort {port['targetPort']} ({port['protocol']}) is a port of none of {names}"
            return FALSE, "TargetPortNotFound", message
    if is_headless(service):
        # Its names have addresses whatever the ports.
        addresses = {address for found in endpoints.addresses(service).values() for address in found}
    else:
        addresses = {one.address for port in endpoints.of(service) for one in port}
    pool = pool_of(snapshot.objects[f"Namespace/{service.namespace}"], snapshot.settings)
    if not addresses and pool and service.spec["selector"]:
        message = f"namespace {service.namespace} has its addresses of pool {pool}, whose workloads are no endpoints"
        return FALSE, "NetworkNotSupported", message
    if not addresses:
        rejected = "" if is_headless(service) else ", connections are rejected"
        return TRUE, "NoEndpoints", f"no endpoint is ready on network {network.name}{rejected}"
    beyond = _beyond(service, endpoints, network)
    if unreached := _unreached(service, beyond, hosts):
        message = (
            f"{', '.join(unreached[:_SHOWN])}: beyond network {network.name}, external hosts reach with "
            "externalTrafficPolicy Local only endpoints that are an address of the host that their nodeName names"
        )
        return FALSE, "EndpointsBeyondNetwork", message
    if processes := _processes(network, beyond, hosts):
        message = (
            f"{', '.join(processes[:_SHOWN])}: addresses of hosts; workloads of network {network.name} do not reach "
            "processes of the host that they are on by TCP and UDP, all others do"
        )
        return FALSE, "EndpointsBeyondNetwork", message
    return TRUE, "EndpointsReady", f"addresses of endpoints on network {network.name}: {len(addresses)}"


def _is_entered(service: StoredObject) -> bool:
    """Return whether a Service is reached from beyond its network."""
    return service.spec["type"] != CLUSTER_IP or bool(service.spec["externalIPs"])


def _beyond(service: StoredObject, endpoints: ServiceEndpoints, network: Network) -> set[tuple[str, Endpoint]]:
    """Return the endpoints that are in no subnet of the network, each with the protocol of its port."""
    subnets = [subnet["cidr"] for subnet in network.subnets]
    return {
        (port["protocol"], one)
        for port, chosen in zip(service.spec["ports"], endpoints.of(service), strict=True)
        for one in chosen
        if not is_within(one.address, subnets)
    }


def _unreached(service: StoredObject, beyond: set[tuple[str, Endpoint]], hosts: dict[str, set[str]]) -> list[str]:
    """Return the endpoints that external hosts do not reach by a Service that they could reach.

    With the policy Local an endpoint receives the client's address as source. What is neither on the network nor on the
    host would answer the client itself, which expects the answer from the Service. `hosts` are those of each address.
    """
    if not _is_entered(service) or service.spec.get("externalTrafficPolicy") != LOCAL:
        return []
    return sorted({one.address for _protocol, one in beyond if one.node not in hosts.get(one.address, ())})


def _processes(network: Network, beyond: set[tuple[str, Endpoint]], hosts: dict[str, set[str]]) -> list[str]:
    """Return the endpoints that are processes of hosts, which some workloads of a user-defined network do not reach.

    Its packets to the host that it is on arrive in a VRF, in which the kernel accepts none for sockets beyond it: the
    sysctls `tcp_l3mdev_accept` and `udp_l3mdev_accept` are off, as in ovn-kubernetes. That of SCTP is on by default.
    """
    if network.is_default:
        return []
    return sorted({one.address for protocol, one in beyond if protocol != "SCTP" and one.address in hosts})


def _slice_readiness(entry: StoredObject, snapshot: Snapshot) -> tuple[str, str, str]:
    name = entry.labels.get(SERVICE_NAME_LABEL)
    if not name:
        return FALSE, "ServiceNotNamed", f"the label {SERVICE_NAME_LABEL} names the Service that it belongs to"
    service = snapshot.objects.get(f"{SERVICE}/{entry.namespace}/{name}")
    if service is None:
        return FALSE, "ServiceNotFound", f"Service {entry.namespace}/{name} does not exist"
    if is_alias(service):
        message = f"Service {entry.namespace}/{name} is of the type ExternalName and has no endpoints"
        return FALSE, "ServiceWithoutEndpoints", message
    if entry.spec["addressType"] == FQDN:
        message = "names are no endpoints: write the addresses in EndpointSlices with the addressType IPv4 or IPv6"
        return FALSE, "AddressTypeNotSupported", message
    own = entry.spec["ports"]
    if not is_headless(service) and not any(is_port_of(one, port) for one in own for port in service.spec["ports"]):
        listed = ", ".join(f"{one['name'] or 'without a name'} ({one['protocol']})" for one in own[:_SHOWN])
        message = f"no port of Service {entry.namespace}/{name} has the name and protocol of a port here: {listed}"
        if not own:
            message = f"it has no port, and Service {entry.namespace}/{name} has"
        return FALSE, "ServicePortNotFound", message
    return TRUE, "EndpointsAdded", f"endpoints of Service {entry.namespace}/{name}"
