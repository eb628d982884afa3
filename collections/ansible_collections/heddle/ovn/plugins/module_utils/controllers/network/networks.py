# SPDX-License-Identifier: Apache-2.0
"""The networks that the stored objects define, independent of the kind of object."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ...api import LabelledNames
from ...api.kinds.mesh_network import ESP
from ...common.naming import DEFAULT_NETWORK, MESH_TOPOLOGY, cluster_network, namespaced_network
from ...store.settings import cluster_subnets
from ...store.snapshot import Snapshot, StoredObject
from ..coil.membership import pool_of
from ..kind_names import NETWORK_KINDS

NAMESPACE_NAME_LABEL = "kubernetes.io/metadata.name"
DEFINITION_KIND = "NetworkAttachmentDefinition"
_NAMESPACED = ("UserDefinedNetwork", "MeshNetwork")
# ovn-kubernetes: Localnet traffic does not use tunnels, for whose headers the default MTU leaves room.
LOCALNET_MTU_SURPLUS = 100


@dataclass(frozen=True)
class Network:
    """One network: its normalised specification (docs/contracts.md, "api") and the namespaces that it serves.

    `name` is that of ovn-kubernetes (`NAMESPACE_NAME`, `cluster_udn_NAME`); `mtu` is in bytes; `subnets` are mappings
    of `cidr` and `hostSubnet`; all other subnets are CIDRs as text.
    """

    name: str
    object_key: str
    nad_name: str
    topology: str
    role: str
    mtu: int
    subnets: tuple
    join_subnets: tuple
    excluded: tuple
    namespaces: tuple
    gateways: tuple = ()
    reserved: tuple = ()
    infrastructure: tuple = ()
    has_ipam: bool = True
    is_persistent: bool = False
    physical_network: str | None = None
    vlan: int | None = None
    is_encrypted: bool = False

    @property
    def is_default(self) -> bool:
        """Return whether this is the network that every workload is attached to."""
        return self.name == DEFAULT_NETWORK

    @property
    def is_transit_routed(self) -> bool:
        """Return whether a transit router joins the zones (OKEP-5094): Layer2 and primary."""
        return self.topology == "Layer2" and self.role == "Primary"

    @property
    def is_mesh(self) -> bool:
        """Return whether this is a network of the mesh, which OVN does not know."""
        return self.topology == MESH_TOPOLOGY

    @property
    def has_host_gateway(self) -> bool:
        """Return whether the host of a workload is its router, with one address for all hosts: mesh and primary."""
        return self.is_mesh and self.role == "Primary"

    @cached_property
    def families(self) -> tuple[int, ...]:
        """Return the address families of the network's subnets: 4, 6 or both."""
        return tuple(sorted({6 if ":" in subnet["cidr"] else 4 for subnet in self.subnets}))


def namespace_labels(namespace: StoredObject) -> dict:
    """Return a namespace's labels with the one that Kubernetes adds itself."""
    return {**namespace.labels, NAMESPACE_NAME_LABEL: namespace.name}


def networks(snapshot: Snapshot) -> dict[str, Network]:
    """Return the networks that are in effect, by name, the default network first.

    Those are the networks with an id and an attachment definition in at least one namespace, without those that cannot
    be rendered: these keep what was allocated to them.
    """
    identifiers = snapshot.allocations.get("network-id", {})
    return {
        name: one for name, one in attached_networks(snapshot).items()
        if one.is_default or (name in identifiers and not is_unrendered(snapshot.objects[one.object_key]))
    }  # fmt: skip


def is_unrendered(entry: StoredObject) -> bool:
    """Return whether a network is left out of the plan because a node cannot render it."""
    return "unrendered" in entry.status


def attached_networks(snapshot: Snapshot) -> dict[str, Network]:
    """Return the networks by name with the namespaces that have their attachment definitions; none without any."""
    namespaces: dict[str, list[str]] = {}
    for entry in snapshot.of_kind(DEFINITION_KIND):
        if "owner" in entry.spec:
            namespaces.setdefault(entry.spec["owner"], []).append(entry.namespace)
    default = _default(snapshot)
    found = {default.name: default}
    for entry in snapshot.of_kind(*NETWORK_KINDS):
        if entry.key in namespaces:
            network = _network(entry, tuple(namespaces[entry.key]), snapshot.settings)
            found[network.name] = network
    return found


def wanted_networks(snapshot: Snapshot) -> dict[str, Network]:
    """Return the networks by name with the namespaces that they select, whether or not they get them.

    Objects being deleted neither select nor are selected.
    """
    default = _default(snapshot)
    found = {default.name: default}
    labels = {entry.name: namespace_labels(entry) for entry in snapshot.of_kind("Namespace") if not entry.is_deleting}
    known = LabelledNames(labels)
    for entry in snapshot.of_kind(*NETWORK_KINDS):
        network = _network(entry, _selected(entry, known), snapshot.settings)
        found[network.name] = network
    return found


def _selected(entry: StoredObject, known: LabelledNames) -> tuple:
    """Return the namespaces that a network selects; `known` are the existing ones."""
    if entry.is_deleting:
        return ()
    if entry.kind in _NAMESPACED:
        return (entry.namespace,) if entry.namespace in known else ()
    return known.selected(entry.spec["namespaceSelector"])


def _default(snapshot: Snapshot) -> Network:
    settings = snapshot.settings
    return Network(
        DEFAULT_NETWORK, "", "default", "Layer3", "Primary", settings["mtu"], tuple(cluster_subnets(settings)),
        tuple(settings["join_subnets"]), (),
        tuple(entry.name for entry in snapshot.of_kind("Namespace") if not pool_of(entry, settings)),
    )  # fmt: skip


def _network(entry: StoredObject, namespaces: tuple, settings: dict) -> Network:
    spec = entry.spec
    name = namespaced_network(entry.namespace, entry.name) if entry.kind in _NAMESPACED else cluster_network(entry.name)
    surplus = LOCALNET_MTU_SURPLUS if spec["topology"] == "Localnet" else 0
    return Network(
        name=name,
        object_key=entry.key,
        nad_name=entry.name,
        topology=spec["topology"],
        role=spec["role"],
        mtu=spec["mtu"] or settings["mtu"] + surplus,
        subnets=tuple(spec["subnets"]),
        join_subnets=_join_subnets(spec, settings),
        excluded=tuple(spec["excludeSubnets"]),
        namespaces=namespaces,
        gateways=tuple(spec["defaultGatewayIPs"]),
        reserved=tuple(spec["reservedSubnets"]),
        infrastructure=tuple(spec["infrastructureSubnets"]),
        has_ipam=spec["ipam"]["mode"] == "Enabled",
        is_persistent=spec["ipam"]["lifecycle"] == "Persistent",
        physical_network=_physical_network(spec, name),
        vlan=spec["vlan"],
        is_encrypted=spec.get("encryption") == ESP,
    )


def _physical_network(spec: dict, name: str) -> str | None:
    """Return the physical network of a Localnet network; where none is given, as in the flat form, its own name.

    ovn-kubernetes, `localnetPhysicalNetworkName`.
    """
    return spec["physicalNetworkName"] or name if spec["topology"] == "Localnet" else None


def _join_subnets(spec: dict, settings: dict) -> tuple:
    """Return the given join subnets; a family that is not given gets its default. They are of OVN's routers only."""
    if spec["role"] != "Primary" or spec["topology"] == MESH_TOPOLOGY:
        return ()
    given = list(spec["joinSubnets"])
    present = {":" in subnet for subnet in given}
    return tuple(given + [subnet for subnet in settings["network_join_subnets"] if (":" in subnet) not in present])


def is_pending(workload: StoredObject) -> bool:
    """Return whether a workload is waiting and is on no host."""
    return workload.status.get("attachments") is None


def running_workloads(snapshot: Snapshot) -> list[StoredObject]:
    """Return the workloads that are in effect on a host, those that wait left out."""
    return [workload for workload in snapshot.of_kind("Workload") if not is_pending(workload)]
