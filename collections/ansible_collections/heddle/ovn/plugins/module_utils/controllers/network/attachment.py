# SPDX-License-Identifier: Apache-2.0
"""The interfaces of a workload, and the addresses and MAC that it may request on its primary Layer2 network.

ovn-kubernetes, preconfigured addresses: a workload names its addresses and its MAC there, out of the subnets but
not out of what is kept for infrastructure; `reservedSubnets` are used for such requests only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...common.addressing import family, network_of, overlapping
from ...common.naming import (
    DEFAULT_INTERFACE,
    DEFAULT_NETWORK,
    PHYSICAL_NETWORK,
    PRIMARY_INTERFACE,
    PRIMARY_NETWORK_LABEL,
    indexed_nad_key,
    nad_key,
)
from ...store.snapshot import Snapshot, StoredObject
from ..allocation.pools import AllocationFailure
from ..allocation.router_addresses import reserved_addresses
from ..coil.membership import pools_of_namespaces
from ..workload.placement import node_of
from .networks import Network, running_workloads

_ELSEWHERE = "take one of another range"


def workload_key(workload: StoredObject) -> str:
    """Return the name of a workload as an owner in pools."""
    return f"{workload.namespace}/{workload.name}"


def moves_live(workload: StoredObject) -> bool:
    """Return whether a workload may migrate live, which excludes addresses that belong to a host."""
    return workload.spec["kind"] == "vm"


@dataclass(frozen=True)
class Attachment:
    """One interface of a workload. `owner` is what pools of its network know it by; `nad` is its key in ovn-kubernetes.

    `addresses` (with prefix length), `mac` and `gateways` are those that the annotation requests.
    """

    network: Network
    owner: str
    interface: str
    nad: str | None = None
    addresses: tuple[str, ...] = ()
    mac: str | None = None
    gateways: tuple[str, ...] = ()


class Attachments:
    """The interfaces of workloads, as far as they are on networks of `found` (name -> network).

    `found` must have the default network; a namespace has at most one primary network in it.
    """

    def __init__(self, found: dict[str, Network]) -> None:
        self._default = found[DEFAULT_NETWORK]
        self._on_default = frozenset(self._default.namespaces)
        self._defined = {
            nad_key(namespace, network.nad_name): network
            for network in found.values()
            for namespace in (() if network.is_default else network.namespaces)
        }
        self._primary = {
            namespace: network
            for network in found.values()
            for namespace in (() if network.is_default or network.role != "Primary" else network.namespaces)
        }
        # By owner, with the specification that they follow from: each stage of admission asks for the same ones.
        self._known: dict[str, tuple[dict, list[Attachment]]] = {}

    @property
    def default(self) -> Network:
        """Return the default network."""
        return self._default

    def defined(self, nad: str) -> Network | None:
        """Return the network that the definition `namespace/name` is of; None when there is none in effect."""
        return self._defined.get(nad)

    def primary(self, entry: StoredObject) -> Network | None:
        """Return the user-defined network that is primary in the namespace of an object, None without one."""
        return self._primary.get(entry.namespace)

    def of(self, workload: StoredObject) -> list[Attachment]:
        """Return a workload's interfaces: on the default network, the primary one, then the selected ones in order.

        A selected network that is not there, or is no secondary one, is left out. A workload with an address of a pool
        is not on the default network (`coil/`).
        """
        owner = workload_key(workload)
        spec, found = self._known.get(owner, (None, []))
        if spec is not workload.spec:
            found = self._of(workload, owner)
            self._known[owner] = workload.spec, found
        return found

    def _of(self, workload: StoredObject, owner: str) -> list[Attachment]:
        found = []
        if not moves_live(workload) and workload.namespace in self._on_default:
            found.append(Attachment(self._default, owner, DEFAULT_INTERFACE))
        primary = self.primary(workload)
        if primary is not None:
            nad = nad_key(workload.namespace, primary.nad_name)
            found.append(Attachment(primary, owner, PRIMARY_INTERFACE, nad))
        seen: dict[str, int] = {}
        for definition, selected in selection(workload):
            network = self._defined.get(definition)
            if network is not None and network.role == "Secondary":
                nad = indexed_nad_key(definition, seen.setdefault(definition, 0))
                seen[definition] += 1
                found.append(_selected(workload, network, nad, selected))
        return found


def selection(workload: StoredObject) -> list[tuple[str, dict]]:
    """Return the definitions (`namespace/name`) that a workload's annotation selects, each with what it requests."""
    # A workload that an older Heddle stored has none.
    selected = workload.spec.get("networks")
    if not selected:
        return []
    return [(nad_key(one["namespace"] or workload.namespace, one["name"]), one) for one in selected]


def _selected(workload: StoredObject, network: Network, nad: str, requested: dict) -> Attachment:
    owner = workload_key(workload)
    return Attachment(
        network=network,
        owner=owner if nad == nad_key(workload.namespace, network.nad_name) else f"{owner}/{nad}",
        interface=requested["interface"],
        nad=nad,
        addresses=tuple(requested["ips"]),
        mac=requested["mac"],
        gateways=tuple(requested["gateways"]),
    )


def asked_addresses(workload: StoredObject, network: Network, subnet: str) -> list[str]:
    """Return the addresses of a subnet that a workload asks for and may have."""
    if not network.is_transit_routed:
        return []
    return [
        address
        for address in workload.spec.get("addresses", [])
        if overlapping(address, subnet) and not _refusal(address, network, subnet)
    ]


def own_mistakes(snapshot: Snapshot, attachments: Attachments) -> list[AllocationFailure]:
    """Return errors in workloads' own requests, whatever other workloads have."""
    failures = list(_unconnected(snapshot, attachments))
    for workload, network in _asking(snapshot, attachments):
        if network is None:
            rule = f"asks for addresses or a MAC, and namespace {workload.namespace} has no primary Layer2 network"
            failures.append((workload.key, rule, f"leave them out, or see to the label {PRIMARY_NETWORK_LABEL}"))
        else:
            failures += [(workload.key, *problem) for problem in _address_problems(workload, network)]
    return failures


def _asking(snapshot: Snapshot, attachments: Attachments) -> Iterator[tuple[StoredObject, Network | None]]:
    """Workloads that ask for an address or a MAC, with the network that they ask it of; not for one of a pool."""
    pools = pools_of_namespaces(snapshot)
    for workload in running_workloads(snapshot):
        asks = workload.spec.get("addresses") and workload.namespace not in pools
        if asks or workload.spec.get("mac"):
            primary = attachments.primary(workload)
            yield workload, primary if primary is not None and primary.is_transit_routed else None


def _unconnected(snapshot: Snapshot, attachments: Attachments) -> Iterator[AllocationFailure]:
    """Return the workloads of Localnet networks whose nodes have no mapping for the physical network."""
    nodes = {node.name: node for node in snapshot.of_kind("Node")}
    for workload in running_workloads(snapshot):
        if (node := nodes.get(node_of(workload))) is not None:
            yield from ((workload.key, *problem) for problem in unconnected(workload, node, attachments))


def unconnected(workload: StoredObject, node: StoredObject, attachments: Attachments) -> Iterator[tuple[str, str]]:
    """Yield rule and remedy for each physical network of a workload that a node has no mapping for."""
    gateway = node.spec.get("gateway")
    for network in (one.network for one in attachments.of(workload)):
        if network.topology != "Localnet" or not gateway:
            continue
        known = [PHYSICAL_NETWORK, *gateway.get("physical_networks", {})]
        if network.physical_network not in known:
            named = f"the physical network {network.physical_network} of {network.name}"
            yield (
                f"node {node.name} has no mapping for {named}",
                f"it has {', '.join(known)}; name others in the inventory and install again",
            )


def _address_problems(workload: StoredObject, network: Network) -> Iterator[tuple[str, str]]:
    asked = workload.spec.get("addresses", [])
    subnets = [subnet["cidr"] for subnet in network.subnets]
    for address in asked:
        subnet = next((one for one in subnets if overlapping(address, one)), None)
        if subnet is None:
            yield f"address {address} is in no subnet of {network.name}", f"take one of {', '.join(subnets)}"
        elif refusal := _refusal(address, network, subnet):
            yield refusal, _ELSEWHERE
    if asked and sorted(map(family, asked)) != list(network.families):
        families = " and one ".join(f"IPv{version}" for version in network.families)
        yield (
            f"asks for {', '.join(asked)}, but {network.name} gives each workload one {families} address",
            ("name one address of each family, or none"),
        )


def _refusal(address: str, network: Network, subnet: str) -> str:
    """Return why an address in a subnet is not for workloads, "" when it is."""
    whole = network_of(subnet)
    if address == str(whole.network_address) or (whole.version == 4 and address == str(whole.broadcast_address)):
        return f"address {address} stands for the whole subnet {subnet}"
    if address in reserved_addresses(network, subnet):
        return f"address {address} is that of the network's gateway or of the nodes"
    kept = next((part for part in network.infrastructure if overlapping(address, part)), None)
    return f"address {address} is in {kept}, which is kept for infrastructure" if kept else ""
