# SPDX-License-Identifier: Apache-2.0
"""Policies of the cluster (AdminNetworkPolicy, BaselineAdminNetworkPolicy): the order of their rules, and their status.

They apply to the workloads that they select on the primary networks of these, and their peers are workloads on the same
network. ovn-kubernetes applies them on the default network only, where a policy of the cluster would leave tenants with
networks of their own open.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...api import LabelledNames
from ...store.snapshot import Snapshot, StoredObject
from ..conditions import ACCEPTED, FALSE, PARTIAL_FAILURE, TRUE, described
from ..kind_names import ADMIN_KINDS, ADMIN_NETWORK_POLICY, BASELINE_ADMIN_NETWORK_POLICY
from ..network.networks import namespace_labels
from .policy_resolver import NetworkPolicies

# ovn-kubernetes has an event with this name.
_DUPLICATE = "ANPWithDuplicatePriority"

# Priorities of ACLs in ovn-kubernetes: of the first rule with the highest priority, and rules of one priority.
_FIRST_ACL, _ACLS_OF_A_PRIORITY = 30000, 100
# The lowest priority that has ACL priorities of its own there.
_LOWEST_WITH_OWN = 99
_FIRST_BASELINE_ACL = 1750


def admin_order(snapshot: Snapshot) -> list[tuple[StoredObject, int]]:
    """Return the policies of the cluster with the ACL priority of their first rule, the first one to decide first.

    Up to priority 99 these are ovn-kubernetes's. It has no priorities of ACLs for lower ones, and the rules of policies
    with one priority have the same. Here such policies follow each other, those of one priority by name, which the API
    permits ("can apply any of the matching policies"). One for which no priority is left is not returned.
    """
    found, free = [], _FIRST_ACL
    for policy in sorted(snapshot.of_kind(ADMIN_NETWORK_POLICY), key=_rank):
        own = _FIRST_ACL - min(policy.spec["priority"], _LOWEST_WITH_OWN) * _ACLS_OF_A_PRIORITY
        first, count = min(own, free), max(len(policy.spec["ingress"]), len(policy.spec["egress"]))
        if first - count < 0:
            break
        found.append((policy, first))
        free = first - count
    return [*found, *((policy, _FIRST_BASELINE_ACL) for policy in snapshot.of_kind(BASELINE_ADMIN_NETWORK_POLICY))]


class AdminPolicies:
    """The policies of the cluster, to find those that may select some workloads without a look at all of them."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._ordered = admin_order(snapshot)
        self._places: dict[str, list[int]] = {}
        if self._ordered:
            namespaces = LabelledNames({entry.name: namespace_labels(entry) for entry in snapshot.of_kind("Namespace")})
            for place, (policy, _first) in enumerate(self._ordered):
                for name in namespaces.selected(policy.spec["subject"]["namespaceSelector"]):
                    self._places.setdefault(name, []).append(place)

    def __bool__(self) -> bool:
        return bool(self._ordered)

    def of(self, workloads: Iterable[StoredObject]) -> list[tuple[StoredObject, int]]:
        """Return those whose subject has the namespace of one of the workloads, as `admin_order` has them."""
        namespaces = {workload.namespace for workload in workloads}
        places = {place for namespace in namespaces for place in self._places.get(namespace, ())}
        return [self._ordered[place] for place in sorted(places)]


def _rank(policy: StoredObject) -> tuple[int, str]:
    return policy.spec["priority"], policy.name


def admin_conditions(
    snapshot: Snapshot, resolved: dict[str, NetworkPolicies], elsewhere: dict[tuple[str, str], list[str]]
) -> Iterator[tuple[StoredObject, list[dict]]]:
    """Yield the policies of the cluster with their conditions.

    `elsewhere` has by kind and name of a policy the networks and pools of its workloads to which no policies apply.
    """
    in_effect = {policy.key for policy, _first in admin_order(snapshot)}
    places: dict[tuple[str, str], list[NetworkPolicies]] = {}
    subjects: dict[tuple[str, str], int] = {}
    for on in resolved.values():
        for entry in on.admin:
            name = entry["kind"], entry["name"]
            places.setdefault(name, []).append(on)
            subjects[name] = subjects.get(name, 0) + len(on.selections[entry["subjects"]])
    equal: dict[int, list[str]] = {}
    for policy in snapshot.of_kind(ADMIN_NETWORK_POLICY):
        equal.setdefault(policy.spec["priority"], []).append(policy.name)
    for policy in snapshot.of_kind(*ADMIN_KINDS):
        name = policy.kind, policy.name
        there = places.get(name, [])
        if policy.key not in in_effect:
            message = "policies of higher priority use all priorities of ACLs; merge policies"
            yield policy, [described(ACCEPTED, FALSE, "SetupFailed", message)]
            continue
        conditions = [described(ACCEPTED, TRUE, "Accepted", _effect(subjects.get(name, 0), len(there)))]
        missing = [on.missing.get(policy.key, []) for on in there]
        nowhere = [port for port in (missing[0] if missing else ()) if all(port in ports for ports in missing)]
        failures = []
        if name in elsewhere:
            message = f"no effect on {', '.join(elsewhere[name])}: policies apply to networks of OVN only"
            failures.append(("NetworkNotSupported", message))
        if nowhere:
            message = f"no workload has such a port, so the rule does nothing for it: {', '.join(nowhere)}"
            failures.append(("NamedPortNotFound", message))
        if failures:
            message = "; ".join(one[1] for one in failures)
            conditions.append(described(PARTIAL_FAILURE, TRUE, failures[0][0], message))
        alike = equal.get(policy.spec.get("priority"), [policy.name])
        if len(alike) > 1:
            message = f"policies with priority {policy.spec['priority']} decide in this order: {', '.join(alike)}"
            conditions.append(described("DuplicatePriority", TRUE, _DUPLICATE, message))
        yield policy, conditions


def _effect(workloads: int, networks: int) -> str:
    if not workloads:
        return "in effect; subject selects no workload"
    return f"in effect for {_counted(workloads, 'workload')} on {_counted(networks, 'primary network')}"


def _counted(count: int, thing: str) -> str:
    return f"{count} {thing}{'' if count == 1 else 's'}"
