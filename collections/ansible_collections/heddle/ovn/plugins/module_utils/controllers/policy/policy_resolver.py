# SPDX-License-Identifier: Apache-2.0
"""What policies select among the workloads of one network, and their rules as the plan has them."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass, field

from ...api import EGRESS, INGRESS, LabelledNames, selector_text
from ...store.snapshot import Snapshot, StoredObject
from ..network.attachment import workload_key
from ..network.networks import namespace_labels
from ..node_addresses import NodeAddresses

_EVERYTHING = {"matchLabels": {}, "matchExpressions": []}
_DIRECTIONS = ((INGRESS, "ingress"), (EGRESS, "egress"))


@dataclass
class NetworkPolicies:
    """The policies of one network, resolved.

    `policies` and `admin` are the entries of the plan (docs/contracts.md, "plan"): those of namespaces, and those of
    the cluster that select a workload, the first one to decide first. `selections` are names of workloads
    (`namespace/name`) by the name of what selects them; `ports` are names of workloads by `PROTOCOL/NAME/NUMBER` of a
    port that they have. By the key of a policy's object, `missing` has the named ports that no workload has, and
    `unaddressed` those for egress of workloads whose address on the network is not known.
    """

    policies: list[dict] = field(default_factory=list)
    admin: list[dict] = field(default_factory=list)
    selections: dict[str, list[str]] = field(default_factory=dict)
    ports: dict[str, list[str]] = field(default_factory=dict)
    missing: dict[str, list[str]] = field(default_factory=dict)
    unaddressed: dict[str, list[str]] = field(default_factory=dict)


def acl_logging(entry: StoredObject) -> dict:
    """Return what the plan has of a namespace's or a policy's logging: nothing where nothing is logged."""
    # A namespace that an older Heddle stored has none.
    return {"logging": entry.spec["aclLogging"]} if entry.spec.get("aclLogging") else {}


class PolicyResolver:
    """Selects among the workloads of one network. Equal selectors are evaluated once, and have one name.

    `nodes` are those of the snapshot; `unaddressed` are those of the workloads (`namespace/name`) whose address on the
    network is not known.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        workloads: list[StoredObject],
        nodes: NodeAddresses,
        unaddressed: Set[str] = frozenset(),
    ) -> None:
        self._snapshot, self._nodes, self._unaddressed = snapshot, nodes, unaddressed
        labels: dict[str, dict[str, dict]] = {}
        for workload in workloads:
            labels.setdefault(workload.namespace, {})[workload_key(workload)] = workload.labels
        self._workloads = {namespace: LabelledNames(own) for namespace, own in labels.items()}
        self._namespaces = LabelledNames({name: namespace_labels(self._namespace(name)) for name in labels})
        # Workloads in their order, as keys.
        self._ports: dict[tuple[str, str], dict[int, dict[str, None]]] = {}
        for workload in workloads:
            # A workload that an older Heddle stored has none.
            for port in workload.spec.get("ports", []):
                if port["name"]:
                    numbers = self._ports.setdefault((port["protocol"], port["name"]), {})
                    numbers.setdefault(port["containerPort"], {})[workload_key(workload)] = None
        self._found = NetworkPolicies()

    def resolved(
        self, policies: Iterable[StoredObject], admin: Iterable[tuple[StoredObject, int]] = ()
    ) -> NetworkPolicies:
        """Return the policies of the network; `admin` are those of the cluster with the priority of their first ACL."""
        self._found.policies = [self._policy(policy) for policy in policies]
        for policy, first in admin:
            entry = self._admin(policy, first)
            if entry:
                self._found.admin.append(entry)
        return self._found

    def _policy(self, policy: StoredObject) -> dict:
        subjects = self._selected(policy.namespace, None, policy.spec["podSelector"])
        return {
            "kind": policy.kind,
            "name": workload_key(policy),
            "namespace": policy.namespace,
            "subjects": subjects,
            "isolates": policy.spec["policyTypes"],
            **acl_logging(self._namespace(policy.namespace)),
            "rules": [
                self._rule(policy, direction, index, rule, subjects)
                for direction, name in _DIRECTIONS
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
        targets = None if direction == EGRESS else self._found.selections[subjects]
        numbers = self._numbers(protocol, name, targets)
        place = f"{direction.lower()} {protocol} {name}"
        if not numbers:
            _note(self._found.missing, policy, place)
        # The rules for what is sent match the address that it goes to.
        having = (self._found.ports[f"{protocol}/{name}/{number}"] for number in numbers)
        if direction == EGRESS and any(not self._unaddressed.isdisjoint(workloads) for workloads in having):
            _note(self._found.unaddressed, policy, place)
        return {"protocol": protocol, "name": name, "numbers": numbers}

    def _numbers(self, protocol: str, name: str, targets: Iterable[str] | None) -> list[int]:
        """Return the numbers that a named port has among some workloads, or among all, and note who has them."""
        numbers = []
        for number, having in sorted(self._ports.get((protocol, name), {}).items()):
            if targets is None or not having.keys().isdisjoint(targets):
                numbers.append(number)
                if (key := f"{protocol}/{name}/{number}") not in self._found.ports:
                    self._found.ports[key] = list(having)
        return numbers

    def _admin(self, policy: StoredObject, first: int) -> dict | None:
        """Return a policy of the cluster, None where it selects no workload of the network."""
        subject = policy.spec["subject"]
        subjects = self._selected(None, subject["namespaceSelector"], subject["podSelector"])
        if not self._found.selections[subjects]:
            return None
        return {
            "kind": policy.kind,
            "name": policy.name,
            "subjects": subjects,
            "first": first,
            **acl_logging(policy),
            "rules": [
                self._admin_rule(policy, direction, index, rule, subjects)
                for direction, name in _DIRECTIONS
                for index, rule in enumerate(policy.spec[name])
            ],
        }

    def _admin_rule(self, policy: StoredObject, direction: str, index: int, rule: dict, subjects: str) -> dict:
        peers = sorted({self._selected(None, peer["namespaceSelector"], peer["podSelector"]) for peer in rule["peers"]})
        addresses = {one for selector in rule["nodes"] for one in self._nodes.of(selector)}
        return {
            "direction": direction,
            "index": index,
            "action": rule["action"],
            "everyone": False,
            "peers": peers,
            "blocks": [{"cidr": one, "except": []} for one in sorted({*rule["networks"], *addresses})],
            "ports": [
                one
                for port in rule["ports"]
                for one in self._admin_ports(policy, direction, port, [subjects] if direction == INGRESS else peers)
            ],
        }

    def _admin_ports(self, policy: StoredObject, direction: str, port: dict, targets: list[str]) -> list[dict]:
        """Return the ports of the plan: a name without a protocol is that of ports of every protocol."""
        if "name" not in port:
            return [{"protocol": port["protocol"], "port": port["port"], "end": port["endPort"]}]
        name, members = port["name"], {one for target in targets for one in self._found.selections[target]}
        found = [
            {"protocol": protocol, "name": name, "numbers": numbers}
            for protocol, known in sorted(self._ports)
            if known == name and (numbers := self._numbers(protocol, name, members))
        ]
        if not found:
            _note(self._found.missing, policy, f"{direction.lower()} {name}")
        return found or [{"protocol": "TCP", "name": name, "numbers": []}]

    def _selected(self, namespace: str | None, namespaces: dict | None, pods: dict) -> str:
        """Return the name of a selection, with ovn-kubernetes's form (`getPodSelectorKey`).

        It is of workloads of one namespace, or of those that a selector selects.
        """
        name = f"{namespace if namespaces is None else selector_text(namespaces)}_{selector_text(pods)}"
        if name not in self._found.selections:
            chosen = (namespace,) if namespaces is None else self._namespaces.selected(namespaces)
            self._found.selections[name] = sorted(
                workload for one in chosen if one in self._workloads for workload in self._workloads[one].selected(pods)
            )
        return name

    def _namespace(self, name: str) -> StoredObject:
        return self._snapshot.objects[f"Namespace/{name}"]


def _note(noted: dict[str, list[str]], policy: StoredObject, place: str) -> None:
    """Note a place in a policy, once."""
    places = noted.setdefault(policy.key, [])
    places += [place] if place not in places else []
