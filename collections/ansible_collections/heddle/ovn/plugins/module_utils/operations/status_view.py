# SPDX-License-Identifier: Apache-2.0
"""Views of the stored state: as data, and as text for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from ..common.text.some_of import some_of
from ..common.text.text_table import MOST_LINES, shortened, table
from ..controllers.kind_names import NETWORK_KINDS
from ..controllers.network.networks import DEFINITION_KIND, networks
from ..controllers.services.cluster_ips import SERVICE
from ..controllers.services.service_endpoints import ServiceEndpoints
from ..store.database import differences
from ..store.snapshot import Snapshot
from .object_status import MOST_NAMES, attention, object_status
from .object_view import documents
from .plans import Plans

_SHOWN_KINDS = (
    "Namespace",
    *NETWORK_KINDS,
    "Workload",
    "Service",
    "EndpointSlice",
    "LoadBalancerPool",
    "NetworkPolicy",
    "MultiNetworkPolicy",
    "AdminNetworkPolicy",
    "BaselineAdminNetworkPolicy",
    "EgressFirewall",
    "EgressIP",
    "EgressQoS",
    "EgressService",
    "Egress",
    "AddressPool",
    DEFINITION_KIND,
)
# Values of `object_status` for objects that need no attention; a namespace is Active.
_READY = ("Ready", "Active", "Running")


def state_view(snapshot: Snapshot, plans: Plans | None = None) -> dict:
    """Return the content of the state database: objects as a server would return them, and allocations."""
    plans = plans or Plans()
    plan = plans.of(snapshot) if snapshot.revision else {"digest": "", "nodes": {}, "networks": {}, "workloads": {}}
    users: dict[str, list[str]] = {name: [] for name in plan["networks"]}
    for name, workload in plan["workloads"].items():
        for network in dict.fromkeys(interface["network"] for interface in workload["interfaces"]):
            users[network].append(name)
    return {
        "revision": snapshot.revision,
        "deployment": snapshot.name,
        "digest": plan["digest"],
        "host_plans": plans.of_hosts(snapshot).digests if snapshot.revision else {},
        "objects": documents(snapshot),
        "nodes": plan["nodes"],
        "networks": plan["networks"],
        "workloads": plan["workloads"],
        "users": users,
        "endpoints": _endpoints(snapshot),
        **({"coil": plan["coil"]} if "coil" in plan else {}),
    }


def _endpoints(snapshot: Snapshot) -> dict[str, list[dict]]:
    """Return the endpoints of each Service, ready or not."""
    services = snapshot.of_kind(SERVICE)
    endpoints = ServiceEndpoints(snapshot, networks(snapshot)) if services else None
    return {f"{service.namespace}/{service.name}": endpoints.listed(service) for service in services}


def alike_table(title: str, head: list[str], states: list[tuple[str, str]]) -> list[str]:
    """Return a table of names and their states, those with the same one in one row; nothing when there are none."""
    if not states:
        return []
    alike: dict[str, list[str]] = {}
    for name, state in states:
        alike.setdefault(state, []).append(name)
    rows = [[some_of(names, MOST_NAMES), state] for state, names in alike.items()]
    more = [[f"... and {len(rows) - MOST_LINES} more", ""]] if len(rows) > MOST_LINES else []
    return table(f"{title} ({len(states)})", head, [*rows[:MOST_LINES], *more])


def objects_summary(objects: dict[str, dict], more: Sequence[str] = ()) -> list[str]:
    """Return what needs attention, all of it, then which objects are not ready, and totals of each kind.

    `more` are lines of what needs attention beyond the state.
    """
    shown = {
        key: document
        for key, document in objects.items()
        if document["kind"] in _SHOWN_KINDS and not _follows(document)
    }
    states = {key: object_status(document) for key, document in shown.items()}
    waiting = [(key, state) for key, state in states.items() if state not in _READY]
    totals = []
    for kind in _SHOWN_KINDS:
        of_kind = [states[key] for key, document in shown.items() if document["kind"] == kind]
        if of_kind:
            totals.append([kind, len(of_kind), sum(state in _READY for state in of_kind)])
    return [
        *titled("Attention", [*more, *attention(objects)]),
        *alike_table("Not ready", ["object", "status"], waiting),
        *table(f"Objects ({len(shown)})", ["kind", "all", "ready"], totals),
    ]


def titled(title: str, lines: list[str]) -> list[str]:
    """Return lines under a title with their count; nothing when there are none."""
    return [f"{title} ({len(lines)})", *("  " + line for line in lines), ""] if lines else []


def _follows(document: dict) -> bool:
    """Return whether an object only follows another one: a definition that Heddle manages."""
    return document["kind"] == DEFINITION_KIND and "status" not in document


def change_lines(before: Snapshot, after: Snapshot) -> list[str]:
    """Return the differences between two states: objects, conditions and allocations, one per line."""
    lines = []
    for entry in differences(before, after):
        old, new, name = entry["before"], entry["after"], entry["name"]
        if entry["kind"] == "allocation":
            verb = "give" if old is None else "free" if new is None else "change"
            lines.append(f"{verb} {name}: {' -> '.join(value for value in (old, new) if value is not None)}")
        elif entry["kind"] == "object":
            lines += _object_lines(name, old, new)
        else:
            lines.append("change the settings")
    return lines


def _object_lines(name: str, old: dict | None, new: dict | None) -> list[str]:
    if new is None:
        return [f"delete {name}"]
    lines = [f"create {name}"] if old is None else []
    if old is not None:
        changed = [part for part in ("labels", "spec") if old[part] != new[part]]
        lines += [f"change {name}: {' and '.join(changed)}"] if changed else []
    was, now = ((side or {}).get("status", {}) for side in (old, new))
    if "deletionTimestamp" in now and "deletionTimestamp" not in was:
        lines.append(f"delete {name} when its last user is gone")
    known = {one["type"]: one for one in was.get("conditions", ())}
    for one in now.get("conditions", ()):
        before = known.get(one["type"], {"status": "unset"})
        if before["status"] != one["status"]:
            lines.append(f"status {name}: {one['type']} {before['status']} -> {one['status']} ({one['reason']})")
        elif (before["reason"], before["message"]) != (one["reason"], one["message"]):
            lines.append(f"status {name}: {one['type']} {one['status']} ({one['reason']}): {one['message']}")
    return lines or [f"status {name}" if was != now else f"change {name}: manifest"]


def changes_text(before: Snapshot, after: Snapshot) -> str:
    """Return what changed as text for a terminal."""
    return "\n".join(shortened("Changes", change_lines(before, after)) or ["No changes", ""])


def objects_text(snapshot: Snapshot, more: Sequence[str] = ()) -> str:
    """Return what needs attention, `more` of it first, and totals, as text for a terminal."""
    return "\n".join(objects_summary(documents(snapshot), more))
