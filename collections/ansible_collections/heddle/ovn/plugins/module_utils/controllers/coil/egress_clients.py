# SPDX-License-Identifier: Apache-2.0
"""Which workloads are clients of which Egress, and why one has to wait (Coil: a pod is not made without its Egress)."""

from __future__ import annotations

from ...api.coil.egress_selection import egress_path
from ...store.snapshot import Snapshot, StoredObject
from ..services.cluster_ips import EGRESS
from ..workload.placement import node_of
from .egress_routers import egress_of, kernel_lacks
from .membership import pool_of


def selected_egresses(workload: StoredObject) -> list[str]:
    """Return what a workload's annotations name, each `namespace/name`."""
    return workload.spec.get("egresses", [])


def why_it_lacks_an_egress(snapshot: Snapshot, workload: StoredObject) -> tuple[str, str] | None:
    """Return reason and message when an Egress is missing or not reachable, or two have the same destination."""
    holders: dict[str, str] = {}
    for name in selected_egresses(workload):
        egress = snapshot.objects.get(f"{EGRESS}/{name}")
        path = egress_path(name.partition("/")[0])
        if egress is None:
            return "EgressNotFound", f"{path}: there is no Egress {name}"
        own, others = (pool_of(snapshot.objects[f"Namespace/{one}"], snapshot.settings)
                       for one in (workload.namespace, egress.namespace))  # fmt: skip
        if bool(own) != bool(others):
            # A host drops what comes from a pool and goes to OVN's networks (`render/host/firewall.py`), which is the
            # first packet of the client or of the router.
            one, other = (workload, egress) if own else (egress, workload)
            return "EgressNotReachable", (
                f"{path}: namespace {one.namespace} has the pool {own or others}, and namespace {other.namespace} has "
                "none: nothing passes between address pools and OVN's networks; put client and Egress into namespaces "
                "with pools, or both into such without"
            )
        for destination in egress.spec["destinations"]:
            other = holders.setdefault(destination, name)
            if other != name:
                return "EgressConflict", f"{path}: {destination} is a destination of {other} and of {name}"
    lacking = kernel_lacks(snapshot.objects.get(f"Node/{node_of(workload)}"))
    if holders and lacking:
        return (
            "TunnelsNotSupported",
            f"the kernel of {node_of(workload)} lacks {lacking}, which clients of an Egress need: boot a kernel that "
            "has it, as Debian's does, or place the workload on another host",
        )
    return None


def why_eth0_is_locked(workload: StoredObject, interfaces: list) -> tuple[str, str] | None:
    """Return reason and message when eth0 carries no tunnels: its namespace has another primary network."""
    if not selected_egresses(workload) and not egress_of(workload):
        return None
    for one in interfaces:
        if one.network.role == "Primary" and not one.network.is_default:
            return (
                "EgressNotReachable",
                f"the tunnels of Egress leave by eth0, and {one.network.object_key} is the primary network of "
                f"namespace {workload.namespace}, so eth0 is locked; use a namespace without one",
            )
    return None
