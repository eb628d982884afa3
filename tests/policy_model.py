# SPDX-License-Identifier: Apache-2.0
"""What the Kubernetes API says about NetworkPolicy, in plain Python: the oracle for what is rendered.

It reads manifests as users write them and shares no code with Heddle.
https://kubernetes.io/docs/concepts/services-networking/network-policies/, networking/v1 `NetworkPolicySpec`.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Endpoint:
    """A workload, or with `namespace` None an external host. `ports` maps (protocol, name) to a number."""

    name: str
    namespace: str | None
    addresses: tuple[str, ...]
    labels: dict = field(default_factory=dict)
    namespace_labels: dict = field(default_factory=dict)
    ports: dict = field(default_factory=dict)

    def address(self, version: int) -> str | None:
        """The address of a family."""
        return next((one for one in self.addresses if ipaddress.ip_address(one).version == version), None)


@dataclass(frozen=True)
class Connection:
    """The first packet of a connection. `protocol` is TCP, UDP, SCTP or ICMP, which has no port."""

    source: Endpoint
    target: Endpoint
    version: int
    protocol: str
    port: int = 0


def is_allowed(policies: list[dict], connection: Connection) -> bool:
    """Whether both ends allow a connection."""
    return sends(policies, connection) and receives(policies, connection)


def sends(policies: list[dict], connection: Connection) -> bool:
    """Whether the source may open a connection."""
    return _one_end(policies, "Egress", connection.source, connection.target, connection)


def receives(policies: list[dict], connection: Connection) -> bool:
    """Whether the target accepts a connection."""
    return _one_end(policies, "Ingress", connection.target, connection.source, connection)


def _one_end(policies, direction, subject, peer, connection):
    applying = [policy for policy in policies if _applies(policy, direction, subject)]
    if not applying:
        return True
    rules = [rule for policy in applying for rule in policy["spec"].get(direction.lower()) or []]
    return any(_allows(rule, direction, policy_namespace=subject.namespace, peer=peer, connection=connection)
               for rule in rules)  # fmt: skip


def _applies(policy, direction, subject):
    spec = policy["spec"]
    types = spec.get("policyTypes") or ["Ingress"] + (["Egress"] if spec.get("egress") else [])
    same = policy["metadata"]["namespace"] == subject.namespace
    return same and direction in types and selects(spec.get("podSelector") or {}, subject.labels)


def _allows(rule, direction, policy_namespace, peer, connection):
    peers = rule.get("from" if direction == "Ingress" else "to")
    ports = rule.get("ports")
    by_peer = not peers or any(_is_peer(one, policy_namespace, peer, connection.version) for one in peers)
    return by_peer and (not ports or any(_is_port(one, connection) for one in ports))


def _is_peer(rule, policy_namespace, peer, version):
    if "ipBlock" in rule:
        address = ipaddress.ip_address(peer.address(version))
        inside = lambda text: address in ipaddress.ip_network(text)  # noqa: E731
        return inside(rule["ipBlock"]["cidr"]) and not any(map(inside, rule["ipBlock"].get("except") or []))
    if peer.namespace is None:
        return False
    if "namespaceSelector" in rule:
        in_namespace = selects(rule["namespaceSelector"], peer.namespace_labels)
    else:
        in_namespace = peer.namespace == policy_namespace
    return in_namespace and selects(rule.get("podSelector") or {}, peer.labels)


def _is_port(rule, connection):
    protocol = rule.get("protocol", "TCP")
    if protocol != connection.protocol:
        return False
    port = rule.get("port")
    if port is None:
        return True
    if isinstance(port, str):
        return connection.target.ports.get((protocol, port)) == connection.port
    return port <= connection.port <= rule.get("endPort", port)


def selects(selector: dict, labels: dict) -> bool:
    """Whether a label selector selects an object with these labels."""
    for key, value in (selector.get("matchLabels") or {}).items():
        if labels.get(key) != value:
            return False
    for expression in selector.get("matchExpressions") or []:
        key, operator = expression["key"], expression["operator"]
        fulfilled = {
            "In": lambda one, key=key: key in labels and labels[key] in one["values"],
            "NotIn": lambda one, key=key: key not in labels or labels[key] not in one["values"],
            "Exists": lambda _one, key=key: key in labels,
            "DoesNotExist": lambda _one, key=key: key not in labels,
        }[operator](expression)
        if not fulfilled:
            return False
    return True
