# SPDX-License-Identifier: Apache-2.0
"""The Layer2 topology version of each node.

A version per node, for all networks, as in the annotation `k8s.ovn.org/layer2-topology-version` (OKEP-5094, "Upgrade
Details"). A cluster created with gateway routers on the Layer2 switches allows changes of a node's version,
in both directions, until the clean-up after the upgrade. While it is open every node has a tunnel key
for its gateway router on each Layer2 primary network, upgraded or not.
"""

from __future__ import annotations

import dataclasses

from ..common.naming import GATEWAY_ROUTERS, TRANSIT_ROUTER
from .snapshot import Snapshot, StoredObject

SETTING = "layer2_topology"
# Values of the setting: the topology of a new cluster.
TOPOLOGIES = {"transit-router": TRANSIT_ROUTER, "gateway-router": GATEWAY_ROUTERS}
_FIELD = "layer2_topology_version"
_OPEN = StoredObject(kind="Layer2Topology", name="upgrade", spec={"last_changed": []})
_UPGRADED = StoredObject(kind="Layer2Topology", name="upgraded-networks", spec={"networks": []})


def version_of(node: StoredObject) -> str:
    """Return a node's version; nodes stored without one have the transit router."""
    return node.spec.get(_FIELD, TRANSIT_ROUTER)


def with_version(node: StoredObject, version: str) -> StoredObject:
    """Return a node with another version."""
    return dataclasses.replace(node, spec={**node.spec, _FIELD: version})


def is_open(snapshot: Snapshot) -> bool:
    """Return whether nodes may have either topology."""
    return _OPEN.key in snapshot.objects


def change(snapshot: Snapshot, nodes: list[str], version: str) -> None:
    """Change the version of nodes, and record which ones: on the hosts their order matters."""
    for node in snapshot.of_kind("Node"):
        if node.name in nodes:
            snapshot.objects[node.key] = with_version(node, version)
    snapshot.objects[_OPEN.key] = dataclasses.replace(_OPEN, spec={"last_changed": sorted(nodes)})


def last_changed(snapshot: Snapshot) -> list[str]:
    """Return the nodes that changed last, as long as the cluster is open."""
    return list(snapshot.objects.get(_OPEN.key, _OPEN).spec["last_changed"])


def close(snapshot: Snapshot, networks: list[str]) -> None:
    """Remove the old topology for good; `networks` are those that may have had it."""
    del snapshot.objects[_OPEN.key]
    snapshot.objects[_UPGRADED.key] = dataclasses.replace(_UPGRADED, spec={"networks": sorted(networks)})


def was_on_link(snapshot: Snapshot, network: str) -> bool:
    """Return whether workloads may have learned that the network's join subnets are on-link.

    The old gateway routers announced that in IPv6 with infinite lifetime: a VM that keeps running has it after the
    upgrade.
    """
    upgraded = snapshot.objects.get(_UPGRADED.key, _UPGRADED)
    return is_open(snapshot) or network in upgraded.spec["networks"]


def begin(snapshot: Snapshot, before: Snapshot) -> None:
    """Set the version of every node of `snapshot` that has none: from the setting, or the new one if closed.

    Only the very first nodes open a cluster.
    """
    wanted = TOPOLOGIES[snapshot.settings[SETTING]]
    if _UPGRADED.key in before.objects:
        snapshot.objects[_UPGRADED.key] = before.objects[_UPGRADED.key]
    if is_open(before) or (wanted == GATEWAY_ROUTERS and not before.of_kind("Node")):
        snapshot.objects[_OPEN.key] = before.objects.get(_OPEN.key, _OPEN)
    known = {node.name for node in before.of_kind("Node")}
    for node in snapshot.of_kind("Node"):
        if _FIELD not in node.spec and node.name not in known:
            version = wanted if is_open(snapshot) else TRANSIT_ROUTER
            snapshot.objects[node.key] = with_version(node, version)
