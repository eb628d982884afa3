# SPDX-License-Identifier: Apache-2.0
"""The routers of an Egress: workloads that Heddle makes in its namespace, as Coil's controller makes pods.

Coil v2, "On-demand NAT for egress traffics". They have their addresses as any workload of that namespace.
"""

from __future__ import annotations

from collections import Counter

from ...api import matches
from ...store.snapshot import Snapshot, StoredObject
from ..network.networks import is_pending
from ..services.cluster_ips import EGRESS
from .disruption import may_be_down
from .router_placement import place

_OWNER = "router_of"
_HOST_NAME = "kubernetes.io/hostname"


def egress_of(workload: StoredObject) -> str | None:
    """Return the Egress (`namespace/name`) that a workload is a router of; None for a user's workload."""
    return workload.spec.get(_OWNER)


def routers(snapshot: Snapshot) -> dict[str, list[StoredObject]]:
    """Return the routers by Egress (`namespace/name`)."""
    found: dict[str, list[StoredObject]] = {}
    for workload in snapshot.of_kind("Workload"):
        owner = egress_of(workload)
        if owner:
            found.setdefault(owner, []).append(workload)
    return found


def router_labels(egress: StoredObject) -> dict[str, str]:
    """Return the labels of an Egress's routers; those that Coil sets replace others of the template."""
    own = {"name": "coil", "instance": egress.name, "component": "egress"}
    return {**egress.spec["template"]["labels"], **{f"app.kubernetes.io/{key}": value for key, value in own.items()}}


def possible_hosts(egress: StoredObject, nodes: list[StoredObject]) -> dict[str, dict[str, str]]:
    """Return the hosts that an Egress's node selector matches and whose kernel has tunnels, with their labels."""
    labels = {
        node.name: {**node.spec.get("labels", {}), _HOST_NAME: node.name} for node in nodes if not kernel_lacks(node)
    }
    selector = {"matchLabels": egress.spec["template"]["nodeSelector"], "matchExpressions": []}
    return {name: own for name, own in labels.items() if matches(selector, own)}


def kernel_lacks(node: StoredObject | None) -> str:
    """Return what a host reported that its kernel lacks of what an Egress needs; "" for nothing."""
    return ", ".join(node.spec.get("kernel_lacks") or ()) if node else ""


def place_routers(before: Snapshot, after: Snapshot, now: str) -> None:
    """Make, keep and remove routers, so that there are those of the Egress objects of `after`."""
    egresses, running = after.of_kind(EGRESS), routers(before)
    if not egresses and not running:
        return
    for one in (one for owned in running.values() for one in owned):
        after.objects.pop(one.key, None)
    nodes = after.of_kind("Node")
    known = {node.name for node in nodes}
    working = {node.name for node in nodes if not kernel_lacks(node)}
    load = Counter(one.spec["node"] for owned in running.values() for one in owned if one.spec["node"] in known)
    for egress in egresses:
        owner = f"{egress.namespace}/{egress.name}"
        there = {one.name: one for one in running.get(owner, ())}
        load.subtract(one.spec["node"] for one in there.values())
        taken = {one.name for one in after.of_kind("Workload") if one.namespace == egress.namespace}
        labels = router_labels(egress)
        apart = [term["topologyKey"] for term in egress.spec["template"]["apart"] if matches(term["selector"], labels)]
        budget = may_be_down(egress)
        # Routers without an address are down already, those that are not there yet, and those of hosts that are lost.
        up = [one for one in there.values() if one.spec["node"] in working and not is_pending(one)]
        placed = place(
            egress.name,
            egress.spec["replicas"],
            possible_hosts(egress, nodes),
            {name: one.spec["node"] for name, one in there.items()},
            load=load,
            taken=taken,
            apart=apart,
            leaving=working,
            may_leave=None if budget is None else max(0, budget - egress.spec["replicas"] + len(up)),
        )
        load.update(placed.values())
        for name, host in placed.items():
            router = _router(egress, name, host, labels, there.get(name), now)
            after.objects[router.key] = router


def _router(
    egress: StoredObject, name: str, host: str, labels: dict, stored: StoredObject | None, now: str
) -> StoredObject:
    owner = {"apiVersion": "coil.cybozu.com/v2", "kind": EGRESS, "name": egress.name, "controller": True}
    metadata = {
        "name": name,
        "namespace": egress.namespace,
        "labels": labels,
        "annotations": egress.spec["template"]["annotations"],
        "ownerReferences": [owner],
    }
    return StoredObject(
        kind="Workload",
        name=name,
        namespace=egress.namespace,
        labels=labels,
        spec={
            "node": host,
            "kind": "netns",
            "movable": True,
            "addresses": [],
            "mac": None,
            "networks": [],
            _OWNER: f"{egress.namespace}/{egress.name}",
        },
        manifest={"apiVersion": "heddle.dev/v1", "kind": "Workload", "metadata": metadata, "spec": {"node": host}},
        status=stored.status if stored else {"creationTimestamp": now},
    )
