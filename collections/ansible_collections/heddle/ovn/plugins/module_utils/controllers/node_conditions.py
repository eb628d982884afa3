# SPDX-License-Identifier: Apache-2.0
"""Status of objects in which nodes say whether they have applied it, with the words of ovn-kubernetes.

There each node reports for itself, and the cluster manager adds the field `status` when all have (ovn-kubernetes,
go-controller/pkg/clustermanager/status_manager, and pkg/ovn/controller/admin_network_policy/status.go):

| kind | of each node | of all |
|---|---|---|
| EgressFirewall | a line of `messages` | `status` |
| EgressQoS | a condition | `status` |
| AdminNetworkPolicy, BaselineAdminNetworkPolicy | a condition | |
"""

from __future__ import annotations

from ..store.snapshot import StoredObject
from .conditions import FALSE, TRUE, described, untimed, with_conditions
from .kind_names import ADMIN_KINDS

READY_IN_ZONE = "Ready-In-Zone-"
_FIREWALL = "EgressFirewall"
# What `status` of an object is about.
_RULES = {_FIREWALL: "EgressFirewall Rules", "EgressQoS": "EgressQoS Rules"}
NODE_KINDS = (*_RULES, *ADMIN_KINDS)


def with_acceptance(entry: StoredObject, conditions: list[dict], now: str) -> StoredObject:
    """Return the object with these conditions; what nodes reported stays while the first condition is True."""
    if conditions[0]["status"] != TRUE:
        return with_conditions(without_nodes(entry), conditions, now)
    return with_conditions(entry, [*conditions, *_of_nodes(entry).values()], now)


def without_nodes(entry: StoredObject) -> StoredObject:
    """Return the object without what nodes reported of it."""
    own = [one for one in entry.status.get("conditions", ()) if not one["type"].startswith(READY_IN_ZONE)]
    return entry.with_status(messages=None, status=None, conditions=own or None)


def with_nodes(entry: StoredObject, states: dict[str, str | None], now: str) -> StoredObject:
    """Return the object with what nodes report of it.

    `states` has by node "" when it has applied the object, and else why it has not; None when it was not asked, so that
    its former report stays. Reports of other nodes are removed.
    """
    former = _messages(entry) if entry.kind == _FIREWALL else _of_nodes(entry)
    found = {}
    for node, reason in sorted(states.items()):
        if reason is not None:
            found[node] = _report(entry.kind, node, reason)
        elif node in former:
            found[node] = former[node]
    if entry.kind == _FIREWALL:
        lines = [f"{node}: {text}" for node, text in found.items()]
        return entry.with_status(messages=lines or None, status=_of_all(entry.kind, list(found.values()), len(states)))
    own = without_nodes(entry).status.get("conditions", ())
    updated = with_conditions(entry, [*map(untimed, own), *found.values()], now)
    if entry.kind not in _RULES:
        return updated
    texts = [one["message"] for one in found.values()]
    return updated.with_status(status=_of_all(entry.kind, texts, len(states)))


def is_applied(document: dict) -> bool:
    """Return False for an object, as a server would return it, that a node reported to have failed with."""
    kind = document["kind"]
    return kind not in _RULES or document.get("status", {}).get("status") != _error(kind)


def _report(kind: str, node: str, reason: str):
    if kind in _RULES:
        text = f"{_error(kind)}: {reason}" if reason else f"{_RULES[kind]} applied"
    else:
        text = reason or "Setting up OVN DB plumbing was successful"
    if kind == _FIREWALL:
        return text
    result = (FALSE, "SetupFailed") if reason else (TRUE, "SetupSucceeded")
    return described(f"{READY_IN_ZONE}{node}", *result, text)


def _error(kind: str) -> str:
    return f"{_RULES[kind]} not correctly applied"


def _of_all(kind: str, texts: list[str], nodes: int) -> str | None:
    """Return the status that follows from all nodes; None while one has not reported."""
    if any(text.startswith(_error(kind)) for text in texts):
        return _error(kind)
    return f"{_RULES[kind]} applied" if nodes and len(texts) == nodes else None


def _messages(entry: StoredObject) -> dict[str, str]:
    return dict(line.split(": ", 1) for line in entry.status.get("messages", ()))


def _of_nodes(entry: StoredObject) -> dict[str, dict]:
    """Return the conditions by node."""
    return {
        one["type"].removeprefix(READY_IN_ZONE): untimed(one)
        for one in entry.status.get("conditions", ())
        if one["type"].startswith(READY_IN_ZONE)
    }
