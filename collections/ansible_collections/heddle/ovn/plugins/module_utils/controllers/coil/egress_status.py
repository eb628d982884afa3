# SPDX-License-Identifier: Apache-2.0
"""Writes the status of Egress objects: Coil's `replicas` and `selector`, and Heddle's condition `Ready`."""

from __future__ import annotations

from ...store.snapshot import Snapshot, StoredObject
from ..conditions import FALSE, SERVICE_READY, TRUE, condition, described, with_conditions
from ..services.cluster_ips import EGRESS
from .disruption import may_be_down
from .egress_routers import kernel_lacks, possible_hosts, router_labels, routers


def update_egresses(snapshot: Snapshot, now: str) -> None:
    """Set the status of every Egress of a snapshot whose workloads have theirs."""
    egresses = snapshot.of_kind(EGRESS)
    there = routers(snapshot) if egresses else {}
    for egress in egresses:
        own = there.get(f"{egress.namespace}/{egress.name}", [])
        running = [one for one in own if one.status.get("attachments") is not None]
        selector = ",".join(
            f"{key}={value}" for key, value in sorted(router_labels(egress).items()) if key.startswith("app.kubernetes")
        )
        updated = egress.with_status(replicas=len(running), selector=selector)
        ready = described(SERVICE_READY, *_readiness(egress, own, running, snapshot))
        snapshot.objects[egress.key] = with_conditions(updated, [ready], now)


def _readiness(
    egress: StoredObject, own: list[StoredObject], running: list[StoredObject], snapshot: Snapshot
) -> tuple[str, str, str]:
    wanted = egress.spec["replicas"]
    count = f"{len(running)} of {wanted} routers"
    if len(own) < wanted:
        hosts = possible_hosts(egress, snapshot.of_kind("Node"))
        selector = ", ".join(f"{key}={value}" for key, value in egress.spec["template"]["nodeSelector"].items())
        may = f"{len(hosts)} of {len(snapshot.of_kind('Node'))} hosts match the node selector {selector or '(none)'}"
        apart = "; podAntiAffinity keeps routers apart" if egress.spec["template"]["apart"] else ""
        return FALSE, "NoHostForRouter", f"{count}: {may}{apart}{_lacking(snapshot)}"
    waiting = next((one for one in own if one not in running), None)
    if waiting is not None:
        return FALSE, "RouterWaits", f"{count}: {waiting.name}: {condition(waiting, SERVICE_READY)['message']}"
    places = ", ".join(f"{one.name} on {one.spec['node']}" for one in running)
    hosts = possible_hosts(egress, snapshot.of_kind("Node"))
    staying = [one.name for one in running if one.spec["node"] not in hosts]
    if staying:
        down = may_be_down(egress)
        rule = f"podDisruptionBudget lets {down} of them be down at a time"
        then = "run heddle.ovn.networks again" if down else "raise it"
        return FALSE, "RoutersLeave", f"{count}: {', '.join(staying)} may not be on its host any more; {rule}: {then}"
    return TRUE, "RoutersRun", f"{count}: {places}"


def _lacking(snapshot: Snapshot) -> str:
    """Return which hosts are left out for their kernels."""
    found = [f"{node.name} lacks {kernel_lacks(node)}" for node in snapshot.of_kind("Node") if kernel_lacks(node)]
    return f"; left out is a host whose kernel has no tunnels: {'; '.join(found)}" if found else ""
