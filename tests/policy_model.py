# SPDX-License-Identifier: Apache-2.0
"""What the Kubernetes API says about policies, in plain Python: the oracle for what is rendered.

It reads manifests as users write them and shares no code with Heddle. The policies are those of one network: a
MultiNetworkPolicy means there what a NetworkPolicy means on a primary one.
https://kubernetes.io/docs/concepts/services-networking/network-policies/, networking/v1 `NetworkPolicySpec`.
https://network-policy-api.sigs.k8s.io/, policy.networking.k8s.io/v1alpha1: "lower priority values have higher
precedence"; policies of one priority have no order in the API, here they are in that of their names.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Endpoint:
    """A workload, or with `namespace` None an external host; `ports` maps (protocol, name) to a number.

    An external host with `node_labels` is a node.
    """

    name: str
    namespace: str | None
    addresses: tuple[str, ...]
    labels: dict = field(default_factory=dict)
    namespace_labels: dict = field(default_factory=dict)
    ports: dict = field(default_factory=dict)
    node_labels: dict | None = None

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
    of_kind = {}
    for policy in policies:
        of_kind.setdefault(policy["kind"], []).append(policy)
    admin = sorted(
        of_kind.get("AdminNetworkPolicy", []), key=lambda one: (one["spec"]["priority"], one["metadata"]["name"])
    )
    action = _first_action(admin, direction, subject, peer, connection)
    if action in ("Allow", "Deny"):
        return action == "Allow"
    own = of_kind.get("NetworkPolicy", []) + of_kind.get("MultiNetworkPolicy", [])
    applying = [policy for policy in own if _applies(policy, direction, subject)]
    if applying:
        rules = [rule for policy in applying for rule in policy["spec"].get(direction.lower()) or []]
        return any(_allows(rule, direction, policy_namespace=subject.namespace, peer=peer, connection=connection)
                   for rule in rules)  # fmt: skip
    baseline = of_kind.get("BaselineAdminNetworkPolicy", [])
    return _first_action(baseline, direction, subject, peer, connection) != "Deny"


def _first_action(policies, direction, subject, peer, connection):
    """The action of the first rule that matches, None without one."""
    for policy in policies:
        if not _are_pods(policy["spec"]["subject"], subject):
            continue
        for rule in policy["spec"].get(direction.lower()) or []:
            peers = rule["from" if direction == "Ingress" else "to"]
            ports = rule.get("ports")
            if any(_is_admin_peer(one, peer, connection.version) for one in peers) and (
                not ports or any(_is_admin_port(one, connection) for one in ports)
            ):
                return rule["action"]
    return None


def _are_pods(which, endpoint):
    if endpoint.namespace is None:
        return False
    if "namespaces" in which:
        return selects(which["namespaces"], endpoint.namespace_labels)
    pods = which["pods"]
    in_namespace = selects(pods["namespaceSelector"], endpoint.namespace_labels)
    return in_namespace and selects(pods["podSelector"], endpoint.labels)


def _is_admin_peer(which, peer, version):
    if "networks" in which:
        return any(_inside(peer.address(version), one) for one in which["networks"])
    if "nodes" in which:
        return peer.node_labels is not None and selects(which["nodes"], peer.node_labels)
    return _are_pods(which, peer)


def _is_admin_port(port, connection):
    if "namedPort" in port:
        return connection.target.ports.get((connection.protocol, port["namedPort"])) == connection.port
    one = port.get("portNumber") or port["portRange"]
    first, last = (one["port"], one["port"]) if "portNumber" in port else (one["start"], one["end"])
    return one.get("protocol", "TCP") == connection.protocol and first <= connection.port <= last


def _inside(address, cidr):
    return ipaddress.ip_address(address) in ipaddress.ip_network(cidr)


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
        address, block = peer.address(version), rule["ipBlock"]
        return _inside(address, block["cidr"]) and not any(_inside(address, one) for one in block.get("except") or [])
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
