# SPDX-License-Identifier: Apache-2.0
"""Conditions in the status of objects, with types and reasons as in OKEP-5193 ("CRD Status") and ovn-kubernetes."""

from __future__ import annotations

from ..store.snapshot import StoredObject

CREATED = "NetworkCreated"
ALLOCATED = "NetworkAllocationSucceeded"
READY = "NetworkReady"
NODES_SELECTED = "NodesSelected"
CONFLICT = "PrimaryNetworkConflict"
WORKLOAD_READY = SERVICE_READY = "Ready"
# Of a workload with a readiness probe; Kubernetes has the word for endpoints (discovery/v1, EndpointConditions).
SERVING = "Serving"
MANAGED = "Managed"
# Kubernetes, NetworkPolicyConditionType (networking/v1 of 1.24 to 1.27).
ACCEPTED, PARTIAL_FAILURE = "Accepted", "PartialFailure"

TRUE, FALSE, UNKNOWN = "True", "False", "Unknown"

# The time in the status of what is only looked at, and not stored.
EPOCH = "1970-01-01T00:00:00Z"


def condition(entry: StoredObject, kind: str) -> dict | None:
    """Return an object's condition of a type, None when it has none."""
    return next((one for one in entry.status.get("conditions", ()) if one["type"] == kind), None)


def described(kind: str, status: str, reason: str, message: str) -> dict:
    """Return a condition without its time, which `with_conditions` adds."""
    return {"type": kind, "status": status, "reason": reason, "message": message}


def untimed(one: dict) -> dict:
    """Return a stored condition as `described` makes one."""
    return {name: value for name, value in one.items() if name != "lastTransitionTime"}


def with_conditions(entry: StoredObject, conditions: list[dict], now: str) -> StoredObject:
    """Return the object with exactly these conditions."""
    return entry.with_status(conditions=timed(conditions, entry, now) or None)


def timed(conditions: list[dict], entry: StoredObject | None, now: str) -> list[dict]:
    """Return conditions with their times; `entry` is the object that had the former ones, None for a new one.

    The timestamp of an unchanged status stays, so unchanged conditions are not written again.
    """
    found = []
    for one in conditions:
        before = condition(entry, one["type"]) if entry else None
        same = before is not None and before["status"] == one["status"]
        found.append({**one, "lastTransitionTime": before["lastTransitionTime"] if same else now})
    return found


def with_condition(entry: StoredObject, kind: str, changed: dict | None, now: str) -> StoredObject:
    """Return the object with this condition of a type, None for none; others stay, and all in their order."""
    known = entry.status.get("conditions", ())
    found = [untimed(one) if one["type"] != kind else changed for one in known]
    if kind not in [one["type"] for one in known]:
        found.append(changed)
    return with_conditions(entry, [one for one in found if one], now)


def with_ready(entry: StoredObject, ready: dict, hosts: dict[str, str] | None, now: str) -> StoredObject:
    """Return the object with this condition NetworkReady and the state reported by each host; others stay.

    `ready` is a result of `ready_on`, `hosts` has a state by host (None: none reported yet), `now` is in the format of
    creationTimestamp; it becomes lastTransitionTime only when the condition's status changes.
    """
    return with_condition(entry, READY, ready, now).with_status(hosts=hosts)


def created(entry: StoredObject, namespaces: list[str], errors: list[str]) -> dict:
    """Return whether the attachment definitions are there; `errors` say where they are not and why."""
    if errors:
        reason = "SyncError" if entry.namespace else "NetworkAttachmentDefinitionSyncError"
        return described(CREATED, FALSE, reason, "; ".join(errors))
    message = "NetworkAttachmentDefinition has been created"
    if not entry.namespace:
        message += f" in following namespaces: [{', '.join(namespaces)}]"
    return described(CREATED, TRUE, "NetworkAttachmentDefinitionCreated", message)


def allocated(failures: list[str]) -> dict:
    """Return whether the network got all its ids and subnets."""
    if failures:
        return described(ALLOCATED, FALSE, "InternalError", "; ".join(failures))
    message = "Network allocation succeeded for all synced nodes."
    return described(ALLOCATED, TRUE, "NetworkAllocationSucceeded", message)


WAITING_FOR_HOSTS = described(
    READY, UNKNOWN, "WaitingForHosts", "the current network has not been applied to all hosts yet"
)


def ready_on(states: dict[str, str], unknown: str) -> dict:
    """Return whether every host has the network; `states` says by host `ready`, `unknown`, or what is wrong."""
    wrong = [f"{host}: {state}" for host, state in sorted(states.items()) if state not in ("ready", unknown)]
    if wrong:
        return described(READY, FALSE, "HostsNotReady", "; ".join(wrong))
    left_out = [f"{host}: {state}" for host, state in sorted(states.items()) if state == unknown]
    if left_out:
        return described(READY, UNKNOWN, "HostsNotAsked", "; ".join(left_out))
    if not states:
        return described(READY, TRUE, "AllHostsReady", "no host needs the network, and none has it")
    return described(READY, TRUE, "AllHostsReady", f"every host has the network: {', '.join(sorted(states))}")
