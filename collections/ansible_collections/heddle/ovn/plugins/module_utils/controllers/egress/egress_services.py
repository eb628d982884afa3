# SPDX-License-Identifier: Apache-2.0
"""EgressServices: the host by which the endpoints of a load balancer's Service leave, and the status of the objects.

As in ovn-kubernetes (`clustermanager/egressservice`): with `sourceIPBy: LoadBalancerIP` one host announces the
addresses of the Service and is the one by which its endpoints leave; with `Network` they leave by their own hosts.
`status.host` has the result. Which endpoints are ready does not matter: a workload does not change its address when it
fails a probe.
"""

from __future__ import annotations

from ...api import matches
from ...api.kinds.egress_service import LOAD_BALANCER_IP
from ...common.addressing import family
from ...store.snapshot import Snapshot, StoredObject
from ..conditions import FALSE, TRUE, described, with_conditions
from ..network.attachment import workload_key
from ..network.networks import Network, networks
from ..node_labels import EGRESS_SERVICE, own_labels
from ..services.cluster_ips import SERVICE
from ..services.load_balancer_addresses import is_load_balancer, load_balancer_addresses
from ..services.service_endpoints import ServiceEndpoints
from .precedence import EGRESS_SERVICE_IN_EFFECT, in_effect, remembered, store_in_effect

# ovn-kubernetes has `status.host` alone; the condition is Heddle's own.
ASSIGNED = "Assigned"
# `status.host` where endpoints leave by their own hosts.
ALL_HOSTS = "ALL"
_SHARED = "shared"


def egress_service_of(snapshot: Snapshot, service: StoredObject) -> StoredObject | None:
    """Return the EgressService of a Service, which has its name."""
    return snapshot.objects.get(f"{EGRESS_SERVICE}/{service.namespace}/{service.name}")


def selected_nodes(snapshot: Snapshot, service: StoredObject, network: Network | None) -> set[str] | None:
    """Return the nodes that may announce the addresses of a Service as far as its EgressService is concerned.

    None where there is none, or one that is not about one host.
    """
    entry = egress_service_of(snapshot, service)
    if entry is None or network is None or entry.spec["sourceIPBy"] != LOAD_BALANCER_IP or _unsupported(entry, network):
        return None
    selector = entry.spec["nodeSelector"]
    return {node.name for node in snapshot.of_kind("Node") if matches(selector, own_labels(node))}


def store_hosts(snapshot: Snapshot, endpoints: ServiceEndpoints) -> None:
    """Store in each EgressService by which host its endpoints leave, once addresses of Services have theirs.

    And in workloads the one by which they leave, or did last.
    """
    for entry in snapshot.of_kind(EGRESS_SERVICE):
        host = "" if _obstacle(entry, snapshot, endpoints) else _host(entry, snapshot)
        snapshot.objects[entry.key] = entry.with_status(host=host)
    store_in_effect(snapshot, EGRESS_SERVICE_IN_EFFECT, EgressServiceSelection(snapshot, endpoints).remembered)


class EgressServiceSelection:
    """The workloads of each EgressService by `namespace/name`, of those that have a host.

    Of several that have a workload one is in effect (`precedence.py`).
    """

    def __init__(self, snapshot: Snapshot, endpoints: ServiceEndpoints) -> None:
        self.workloads: dict[str, list[str]] = {}
        # By workload (`namespace/name`) the one that is in effect.
        self.owners: dict[str, str] = {}
        # These, and the last ones of workloads of which none is.
        self.remembered: dict[str, str] = {}
        # By object the workloads that are endpoints of its Service too and that belong to another one.
        self.elsewhere: dict[str, dict[str, str]] = {}
        self.networks: dict[str, Network] = {}
        # Of those with one host, and the families in which their Services have an address there.
        self.hosts: dict[str, str] = {}
        self.families: dict[str, set[int]] = {}
        backing: dict[str, list[StoredObject]] = {}
        without_host: dict[str, list[StoredObject]] = {}
        for entry in snapshot.of_kind(EGRESS_SERVICE):
            host = entry.status.get("host")
            service = snapshot.objects.get(_service_key(entry))
            network = endpoints.network(service) if service else None
            if network is None:
                continue
            name = _name(entry)
            if not host:
                without_host[name] = endpoints.backing(service)
                continue
            self.networks[name] = network
            if host != ALL_HOSTS:
                self.hosts[name] = host
                self.families[name] = {family(address) for address in service.status.get("announcers") or {}}
            backing[name] = endpoints.backing(service)
        self.owners = in_effect(backing, EGRESS_SERVICE_IN_EFFECT)
        self.remembered = remembered(self.owners, without_host, EGRESS_SERVICE_IN_EFFECT)
        for name, workloads in backing.items():
            for key in map(workload_key, workloads):
                if self.owners[key] == name:
                    self.workloads.setdefault(name, []).append(key)
                else:
                    self.elsewhere.setdefault(name, {})[key] = self.owners[key]


def update_egress_services(snapshot: Snapshot, now: str) -> None:
    """Write the conditions of every EgressService of a snapshot whose hosts are stored."""
    entries = snapshot.of_kind(EGRESS_SERVICE)
    if not entries:
        return
    endpoints = ServiceEndpoints(snapshot, networks(snapshot))
    selection = EgressServiceSelection(snapshot, endpoints)
    for entry in entries:
        condition = described(ASSIGNED, *_condition(entry, snapshot, endpoints, selection))
        snapshot.objects[entry.key] = with_conditions(entry, [condition], now)


def _condition(
    entry: StoredObject, snapshot: Snapshot, endpoints: ServiceEndpoints, selection: EgressServiceSelection
) -> tuple[str, str, str]:
    obstacle = _obstacle(entry, snapshot, endpoints)
    if obstacle:
        return FALSE, *obstacle
    host = entry.status.get("host")
    if not host:
        message = f"no host that may announce the addresses of Service {_name(entry)} matches the node selector"
        return FALSE, "NoMatchingNodeFound", message
    elsewhere = selection.elsewhere.get(_name(entry))
    if elsewhere:
        names = ", ".join(f"{workload} has that of {other}" for workload, other in sorted(elsewhere.items()))
        return FALSE, "WorkloadInUse", f"a workload leaves by one EgressService only: {names}"
    count = len(selection.workloads.get(_name(entry), ()))
    where = "by their own hosts" if host == ALL_HOSTS else f"by {host}"
    return TRUE, "Assigned", f"workloads that leave {where}: {count}"


def _obstacle(entry: StoredObject, snapshot: Snapshot, endpoints: ServiceEndpoints) -> tuple[str, str] | None:
    """Return why an EgressService has no host, whatever hosts there are: a reason and a message."""
    service = snapshot.objects.get(_service_key(entry))
    if service is None:
        return "ServiceNotFound", f"Service {_name(entry)} does not exist; an EgressService has the name of its Service"
    if not is_load_balancer(service):
        return "ServiceNotSupported", f"Service {_name(entry)} is not of type LoadBalancer with addresses of Heddle"
    network = endpoints.network(service)
    if network is None:
        message = f"namespace {entry.namespace} is labelled for a primary network and has none that can be used"
        return "PrimaryNetworkMissing", message
    unsupported = _unsupported(entry, network)
    if unsupported:
        return "NetworkNotSupported", unsupported
    shared = [node.name for node in snapshot.of_kind("Node") if _mode(node) == _SHARED]
    if entry.spec["sourceIPBy"] != LOAD_BALANCER_IP and shared:
        message = f"sourceIPBy Network needs the local gateway mode, and {', '.join(shared)} have the shared one"
        return "GatewayModeNotSupported", message
    if not load_balancer_addresses(snapshot, service):
        return "NoAddress", f"Service {_name(entry)} has no load balancer address, see its condition Announced"
    if not endpoints.backing(service):
        return "NoEndpoints", f"no workload is an endpoint of Service {_name(entry)}"
    return None


def _unsupported(entry: StoredObject, network: Network) -> str:
    """Return what a user-defined network cannot do.

    Its packets reach the host's kernel with a masquerade address, or not at all: rules by the source address of a
    workload, which another network may have too, do not apply to them.
    """
    if network.is_default:
        return ""
    if network.is_mesh:
        return f"{network.name} is a MeshNetwork, which has no Services"
    if entry.spec["sourceIPBy"] != LOAD_BALANCER_IP:
        return f"sourceIPBy Network applies to the default network only, and {entry.namespace} has {network.name}"
    if entry.spec["network"]:
        return f"network applies to the default network only, and {entry.namespace} has {network.name}"
    return ""


def _host(entry: StoredObject, snapshot: Snapshot) -> str:
    if entry.spec["sourceIPBy"] != LOAD_BALANCER_IP:
        return ALL_HOSTS
    # One host has all of them (`assigned_hosts`), but for those that another one has not given up yet.
    held = set((snapshot.objects[_service_key(entry)].status.get("announcers") or {}).values())
    return held.pop() if len(held) == 1 else ""


def _mode(node: StoredObject) -> str | None:
    gateway = node.spec.get("gateway")
    return gateway.get("mode", _SHARED) if gateway else None


def _service_key(entry: StoredObject) -> str:
    return f"{SERVICE}/{entry.namespace}/{entry.name}"


def _name(entry: StoredObject) -> str:
    return f"{entry.namespace}/{entry.name}"
