# SPDX-License-Identifier: Apache-2.0
"""The endpoints of Services: workloads that a selector chooses, and EndpointSlices that were written by hand.

A pure function of the stored objects, which include whether a workload is ready. Endpoints are on the network that is
primary in the namespace of the Service (OKEP-5193, "Services"), by their addresses there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from ...api import LabelledNames
from ...common.addressing import family
from ...store.snapshot import Snapshot, StoredObject
from ..allocation.allocation import given_addresses, workload_subnets
from ..network.attachment import Attachments, workload_key
from ..network.networks import Network, running_workloads
from ..workload.placement import node_of
from ..workload.workload_readiness import is_serving
from .cluster_ips import families_of, is_alias, is_headless, service_network

ENDPOINT_SLICE = "EndpointSlice"
SERVICE_NAME_LABEL = "kubernetes.io/service-name"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One address and port of a Service's port; `node` is None for an endpoint that is on no node of the cluster.

    `ready` is what its EndpointSlice says. Workloads that are endpoints are ready: Kubernetes' slices have those of
    `publishNotReadyAddresses` as ready, too.
    """

    address: str
    port: int
    node: str | None
    ready: bool = True


class ServiceEndpoints:
    """Networks and endpoints of the Services of a snapshot; `found` are its networks in effect, by name."""

    def __init__(self, snapshot: Snapshot, found: dict[str, Network]) -> None:
        self._snapshot = snapshot
        self._attachments = Attachments(found)
        labels: dict[str, dict[str, dict]] = {}
        for workload in running_workloads(snapshot):
            labels.setdefault(workload.namespace, {})[workload.key] = workload.labels
        self._workloads = {namespace: LabelledNames(own) for namespace, own in labels.items()}
        self._slices: dict[tuple[str, str], list[StoredObject]] = {}
        for entry in snapshot.of_kind(ENDPOINT_SLICE):
            name = entry.labels.get(SERVICE_NAME_LABEL, "")
            self._slices.setdefault((entry.namespace, name), []).append(entry)

    def network(self, service: StoredObject) -> Network | None:
        """Return the network of a Service; None as long as its namespace lacks the primary one it is labelled for."""
        return service_network(self._snapshot, self._attachments, service)

    def served(self, service: StoredObject) -> Network | None:
        """Return the network of a Service where it can have any: OVN does not know those of the mesh."""
        network = self.network(service)
        return None if network is None or network.is_mesh else network

    def selected(self, service: StoredObject) -> list[StoredObject]:
        """Return the running workloads that a Service's selector chooses, ready or not; none without a selector."""
        selector, known = service.spec["selector"], self._workloads.get(service.namespace)
        if not selector or known is None:
            return []
        found = known.selected({"matchLabels": selector, "matchExpressions": []})
        return [self._snapshot.objects[key] for key in found]

    def backing(self, service: StoredObject) -> list[StoredObject]:
        """Return the running workloads that are endpoints of a Service on its network, ready or not.

        Those of its selector, and those whose addresses are in EndpointSlices.
        """
        network = self.served(service)
        if network is None:
            return []
        found = {workload.key: workload for workload in self.selected(service) if self._addresses(workload, network)}
        listed = {
            address
            for entry in self._slices_of(service)
            for endpoint in entry.spec["endpoints"]
            for address in endpoint["addresses"]
        }
        having = {key for address in listed for key in self._having.get((network.name, address), ())}
        return list((found | {key: self._snapshot.objects[key] for key in sorted(having)}).values())

    @cached_property
    def _having(self) -> dict[tuple[str, str], list[str]]:
        """The running workloads by network and by their addresses there; few Services need them."""
        found: dict[tuple[str, str], list[str]] = {}
        for workload in running_workloads(self._snapshot):
            for name, network in {one.network.name: one.network for one in self._attachments.of(workload)}.items():
                for address in self._addresses(workload, network):
                    found.setdefault((name, address), []).append(workload.key)
        return found

    def of(self, service: StoredObject) -> list[list[Endpoint]]:
        """Return the endpoints of each port of a Service, of the families that it shares with its network.

        In a family without any that is ready, those of slices that terminate and still serve (Kubernetes, KEP-1669).
        """
        network = self.served(service)
        if network is None:
            return [[] for _port in service.spec["ports"]]
        families, chosen = self._families(service, network), self._chosen(service, network)
        slices, unready = self._slices_of(service), service.spec["publishNotReadyAddresses"]
        endpoints = []
        for port in service.spec["ports"]:
            found = [
                *_of_workloads(port, chosen),
                *_of_slices(port, slices, families, lambda endpoint: unready or endpoint["ready"]),
            ]
            without = families - {family(one.address) for one in found}
            found += _of_slices(port, slices, without, lambda endpoint: endpoint.get("terminating"))
            endpoints.append(_each_once(found))
        return endpoints

    def addresses(self, service: StoredObject) -> dict[str, list[str]]:
        """Return the addresses of ready endpoints whatever their ports, which a headless Service need not have.

        By the name of the endpoint: a workload's, or `hostname` of an EndpointSlice; "" for those without any.
        """
        network = self.served(service)
        if network is None:
            return {}
        families, unready = self._families(service, network), service.spec["publishNotReadyAddresses"]
        found: dict[str, list[str]] = {}
        for workload, addresses in self._chosen(service, network):
            found.setdefault(workload.name, []).extend(addresses)
        for entry in self._slices_of(service):
            for endpoint in entry.spec["endpoints"]:
                if unready or endpoint["ready"]:
                    addresses = [one for one in endpoint["addresses"] if family(one) in families]
                    found.setdefault(endpoint.get("hostname", ""), []).extend(addresses)
        return {name: list(dict.fromkeys(addresses)) for name, addresses in found.items() if addresses}

    def listed(self, service: StoredObject) -> list[dict]:
        """Return what backs a Service by address, ready or not, for users to see; of the families as in `of`.

        `workload` is the one that has the address on the network, `slice` the EndpointSlice where no selector chose it.
        """
        network = self.served(service)
        if network is None:
            return []
        families, unready = self._families(service, network), service.spec["publishNotReadyAddresses"]
        found: dict[str, dict] = {}
        for workload in self.selected(service):
            ports = [number for port in service.spec["ports"] if (number := target_port(workload, port)) is not None]
            for address in self._addresses(workload, network):
                if family(address) in families:
                    found[address] = {
                        "address": address, "ports": [*dict.fromkeys(ports)], "ready": unready or is_serving(workload),
                        "terminating": False, "node": node_of(workload), "workload": workload_key(workload),
                        "slice": None,
                    }  # fmt: skip
        for entry in self._slices_of(service):
            ports = [one["port"] for port in service.spec["ports"] for one in entry.spec["ports"]
                     if is_port_of(one, port)]  # fmt: skip
            for endpoint in entry.spec["endpoints"]:
                for address in endpoint["addresses"]:
                    if family(address) not in families:
                        continue
                    key = next(iter(self._having.get((network.name, address), ())), None)
                    workload = workload_key(self._snapshot.objects[key]) if key else None
                    first = {"address": address, "ports": [], "ready": False, "terminating": False,
                             "node": endpoint["node"], "workload": workload, "slice": entry.name}  # fmt: skip
                    one = found.setdefault(address, first)
                    one["ports"] = [*dict.fromkeys(one["ports"] + ports)]
                    one["ready"] |= unready or endpoint["ready"]
                    one["terminating"] |= endpoint.get("terminating", False)
        return [one for one in found.values() if one["ports"] or is_headless(service)]

    def _families(self, service: StoredObject, network: Network) -> set[int]:
        return {*families_of(service, self._snapshot)} & {*network.families}

    def _slices_of(self, service: StoredObject) -> list[StoredObject]:
        return [] if is_alias(service) else self._slices.get((service.namespace, service.name), [])

    def _chosen(self, service: StoredObject, network: Network) -> list[tuple[StoredObject, list[str]]]:
        """Return the workloads that are endpoints, each with its addresses on the network."""
        families, unready = self._families(service, network), service.spec["publishNotReadyAddresses"]
        return [
            (workload, [one for one in self._addresses(workload, network) if family(one) in families])
            for workload in self.selected(service)
            if unready or is_serving(workload)
        ]

    def _addresses(self, workload: StoredObject, network: Network) -> list[str]:
        subnets = workload_subnets(self._snapshot, network, node_of(workload))
        for attachment in self._attachments.of(workload):
            if attachment.network is network:
                return given_addresses(self._snapshot, attachment, subnets)
        return []


def target_port(workload: StoredObject, port: dict) -> int | None:
    """Return the number of a Service's port at a workload, None when no port of the workload has its name."""
    target = port["targetPort"]
    if isinstance(target, int):
        return target
    own = workload.spec.get("ports", ())
    named = (one for one in own if (one["name"], one["protocol"]) == (target, port["protocol"]))
    return next((one["containerPort"] for one in named), None)


def _of_workloads(port: dict, chosen: list[tuple[StoredObject, list[str]]]) -> list[Endpoint]:
    return [
        Endpoint(address, number, node_of(workload))
        for workload, addresses in chosen
        if (number := target_port(workload, port)) is not None
        for address in addresses
    ]


def _of_slices(
    port: dict, slices: list[StoredObject], families: set[int], is_wanted: Callable[[dict], bool]
) -> list[Endpoint]:
    return [
        Endpoint(address, own["port"], endpoint["node"], endpoint["ready"])
        for entry in slices
        for own in entry.spec["ports"]
        if is_port_of(own, port)
        for endpoint in entry.spec["endpoints"]
        if is_wanted(endpoint)
        for address in endpoint["addresses"]
        if family(address) in families
    ]


def is_port_of(own: dict, port: dict) -> bool:
    """Return whether a port of an EndpointSlice is that port of its Service."""
    return (own["name"], own["protocol"]) == (port["name"], port["protocol"])


def _each_once(found: list[Endpoint]) -> list[Endpoint]:
    """Return endpoints without repetitions, which would have a larger share; one that names its node is preferred."""
    unique: dict[tuple[str, int], Endpoint] = {}
    for one in found:
        known = unique.get((one.address, one.port))
        if known is None or known.node is None:
            unique[one.address, one.port] = one
    return list(unique.values())
