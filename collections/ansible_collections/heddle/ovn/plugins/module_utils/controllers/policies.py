# SPDX-License-Identifier: Apache-2.0
"""Network policies: the network that each is about, the workloads that it selects, and its status.

A policy applies to the workloads of its namespace on their primary network, and its peers are workloads on that network
too: another network's workloads cannot be reached, whatever their labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ..api import EGRESS, INGRESS, matches, selector_text
from ..common.naming import PRIMARY_NETWORK_LABEL
from ..store.snapshot import Snapshot, StoredObject
from .attachment import Attachments, workload_key
from .conditions import FALSE, TRUE, described, with_conditions
from .networks import Network, namespace_labels, networks, running_workloads

POLICY_KINDS = ("NetworkPolicy",)
# Kubernetes, NetworkPolicyConditionType (networking/v1 of 1.24 to 1.27).
ACCEPTED, PARTIAL_FAILURE = "Accepted", "PartialFailure"

_EVERYTHING = {"matchLabels": {}, "matchExpressions": []}


@dataclass
class NetworkPolicies:
    """The policies of one network, resolved.

    `policies` are the entries of the plan (docs/architecture.md, "Network policy"). `selections` are names of workloads
    (`namespace/name`) by the name of what selects them; `ports` are names of workloads by `PROTOCOL/NAME/NUMBER` of a
    port that they have. `missing` has the named ports that no workload has, by the key of the policy's object.
    """

    policies: list[dict] = field(default_factory=list)
    selections: dict[str, list[str]] = field(default_factory=dict)
    ports: dict[str, list[str]] = field(default_factory=dict)
    missing: dict[str, list[str]] = field(default_factory=dict)


def resolved_policies(snapshot: Snapshot, found: dict[str, Network]) -> dict[str, NetworkPolicies]:
    """Return the policies in effect by network; `found` are the networks in effect (`networks`)."""
    attachments, by_network = Attachments(found), {}
    for policy in snapshot.of_kind(*POLICY_KINDS):
        network = policy_network(snapshot, policy, attachments)
        if network is not None:
            by_network.setdefault(network.name, []).append(policy)
    if not by_network:
        return {}
    on = _workloads_by_network(snapshot, attachments)
    return {
        name: _Resolver(snapshot, on.get(name, [])).resolved(policies) for name, policies in sorted(by_network.items())
    }


def policy_network(snapshot: Snapshot, policy: StoredObject, attachments: Attachments) -> Network | None:
    """Return the network that a policy is about: its namespace's primary one. None while the namespace has none."""
    primary = attachments.primary(policy)
    if primary is not None:
        return primary
    labelled = PRIMARY_NETWORK_LABEL in snapshot.objects[f"Namespace/{policy.namespace}"].labels
    return None if labelled else attachments.default


def update_policies(snapshot: Snapshot, now: str) -> None:
    """Write the status of every policy."""
    entries = snapshot.of_kind(*POLICY_KINDS)
    if not entries:
        return
    found = networks(snapshot)
    attachments, resolved = Attachments(found), resolved_policies(snapshot, found)
    subjects = {name: {policy["name"]: policy["subjects"] for policy in on.policies} for name, on in resolved.items()}
    for policy in entries:
        network = policy_network(snapshot, policy, attachments)
        on = resolved.get(network.name) if network else None
        selected = on.selections[subjects[network.name][workload_key(policy)]] if on else []
        conditions = list(_conditions(policy, network, on, selected))
        snapshot.objects[policy.key] = with_conditions(policy, conditions, now)


def _conditions(
    policy: StoredObject, network: Network | None, on: NetworkPolicies | None, selected: list[str]
) -> Iterator[dict]:
    if network is None or on is None:
        message = f"namespace {policy.namespace} is labelled for a primary network and has none that can be used"
        yield described(ACCEPTED, FALSE, "PrimaryNetworkMissing", message)
        return
    empty = "" if selected else "; podSelector selects no workload"
    yield described(ACCEPTED, TRUE, "Accepted", f"in effect on {network.name}{empty}")
    missing = on.missing.get(policy.key)
    if missing:
        message = f"no workload has such a port, so nothing is allowed for it: {', '.join(missing)}"
        yield described(PARTIAL_FAILURE, TRUE, "NamedPortNotFound", message)


def _workloads_by_network(snapshot: Snapshot, attachments: Attachments) -> dict[str, list[StoredObject]]:
    """Return the workloads by the network that is primary for them."""
    found: dict[str, list[StoredObject]] = {}
    for workload in running_workloads(snapshot):
        used = [one.network for one in attachments.of(workload) if one.network.role == "Primary"]
        if used:
            # The last one: on the default network a workload with another primary network is locked.
            found.setdefault(used[-1].name, []).append(workload)
    return found


class _Resolver:
    """Selects among the workloads of one network. Equal selectors are evaluated once, and have one name."""

    def __init__(self, snapshot: Snapshot, workloads: list[StoredObject]) -> None:
        self._namespaces = {entry.name: namespace_labels(entry) for entry in snapshot.of_kind("Namespace")}
        self._by_namespace: dict[str, list[StoredObject]] = {}
        for workload in workloads:
            self._by_namespace.setdefault(workload.namespace, []).append(workload)
        self._workloads = {workload_key(workload): workload for workload in workloads}
        self._ports: dict[tuple[str, str], dict[int, list[str]]] = {}
        for key, workload in self._workloads.items():
            # A workload that an older Heddle stored has none.
            for port in workload.spec.get("ports", []):
                if port["name"]:
                    numbers = self._ports.setdefault((port["protocol"], port["name"]), {})
                    numbers.setdefault(port["containerPort"], []).append(key)
        self._found = NetworkPolicies()

    def resolved(self, policies: Iterable[StoredObject]) -> NetworkPolicies:
        """Return the policies of the network."""
        self._found.policies = [self._policy(policy) for policy in policies]
        return self._found

    def _policy(self, policy: StoredObject) -> dict:
        subjects = self._selected(policy.namespace, None, policy.spec["podSelector"])
        return {
            "kind": policy.kind,
            "name": workload_key(policy),
            "namespace": policy.namespace,
            "subjects": subjects,
            "isolates": policy.spec["policyTypes"],
            "rules": [
                self._rule(policy, direction, index, rule, subjects)
                for direction, name in ((INGRESS, "ingress"), (EGRESS, "egress"))
                if direction in policy.spec["policyTypes"]
                for index, rule in enumerate(policy.spec[name])
            ],
        }

    def _rule(self, policy: StoredObject, direction: str, index: int, rule: dict, subjects: str) -> dict:
        """Return a rule of the plan.

        Without peers it is about everyone, without ports about everything. Peers are names of selections, each once.
        """
        peers = [
            self._selected(policy.namespace, peer["namespaceSelector"], peer["podSelector"] or _EVERYTHING)
            for peer in rule["peers"]
            if peer["ipBlock"] is None
        ]
        return {
            "direction": direction,
            "index": index,
            "everyone": not rule["peers"],
            "peers": sorted(set(peers)),
            "blocks": [peer["ipBlock"] for peer in rule["peers"] if peer["ipBlock"]],
            "ports": [self._port(policy, direction, port, subjects) for port in rule["ports"]],
        }

    def _port(self, policy: StoredObject, direction: str, port: dict, subjects: str) -> dict:
        """Return a port of the plan; a named one has the numbers of the workloads that packets go to."""
        if not isinstance(port["port"], str):
            return {"protocol": port["protocol"], "port": port["port"], "end": port["endPort"]}
        protocol, name = port["protocol"], port["port"]
        numbers = []
        for number, having in sorted(self._ports.get((protocol, name), {}).items()):
            if direction == EGRESS or not set(having).isdisjoint(self._found.selections[subjects]):
                numbers.append(number)
                self._found.ports[f"{protocol}/{name}/{number}"] = having
        if not numbers:
            place = f"{direction.lower()} {protocol} {name}"
            missing = self._found.missing.setdefault(policy.key, [])
            missing += [place] if place not in missing else []
        return {"protocol": protocol, "name": name, "numbers": numbers}

    def _selected(self, namespace: str, namespaces: dict | None, pods: dict) -> str:
        """Return the name of a selection, with ovn-kubernetes's form (`getPodSelectorKey`)."""
        name = f"{namespace if namespaces is None else selector_text(namespaces)}_{selector_text(pods)}"
        if name not in self._found.selections:
            chosen = (
                [namespace]
                if namespaces is None
                else [one for one in self._by_namespace if matches(namespaces, self._namespaces[one])]
            )
            self._found.selections[name] = sorted(
                workload_key(workload)
                for one in chosen
                for workload in self._by_namespace.get(one, ())
                if matches(pods, workload.labels)
            )
        return name
