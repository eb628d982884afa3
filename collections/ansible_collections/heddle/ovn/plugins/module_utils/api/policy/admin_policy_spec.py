# SPDX-License-Identifier: Apache-2.0
"""The spec of AdminNetworkPolicy and BaselineAdminNetworkPolicy (policy.networking.k8s.io/v1alpha1).

Rules and words are those of the custom resource definitions (`apis/v1alpha1` of network-policy-api).
"""

from __future__ import annotations

from ..addresses import read_cidr
from ..node import Fields, Node
from ..problem import show
from ..selector import read_selector
from ..services.ports import PROTOCOLS, read_port_name, read_port_number, refuse_duplicates

HIGHEST, LOWEST = 0, 1000
_MOST = 100
_MOST_NETWORKS = 25
_LONGEST_NAME = 100
_SUBJECTS = ("namespaces", "pods")
_EXTERNAL = ("nodes", "networks", "domainNames")
_PORTS = ("portNumber", "portRange", "namedPort")
_INGRESS, _EGRESS = ("ingress", "from"), ("egress", "to")


def read_admin_spec(node: Node, *, actions: tuple[str, ...], has_priority: bool) -> dict | None:
    """The normalised spec.

    ``{"priority": int, "subject": pods, "ingress": [rule], "egress": [rule]}``, the priority for AdminNetworkPolicy
    only. Pods are ``{"namespaceSelector": selector, "podSelector": selector}``. A rule is ``{"name": str, "action":
    str, "peers": [pods], "nodes": [selector], "networks": [str], "ports": [port]}``, a port ``{"protocol": str, "port":
    int, "endPort": int | None}`` or ``{"name": str}``. Without ports, a rule has an empty list.
    """
    if node.value is None:
        node.refuse("Required value", "add it with subject")
        return None
    priorities = ("priority",) if has_priority else ()
    fields = node.mapping((*priorities, "subject", "ingress", "egress"))
    spec = {}
    if has_priority:
        priority = fields.require("priority", f"write a number from {HIGHEST} to {LOWEST}; lower ones come first")
        spec["priority"] = priority.integer(HIGHEST, LOWEST) if priority else None
    subject = fields.require("subject", "write {namespaces: {}} for all workloads")
    spec["subject"] = _read_pods(_one_of(subject, _SUBJECTS)) if subject else None
    for name, peers in (_INGRESS, _EGRESS):
        rules = fields.get(name)
        spec[name] = [_read_rule(rule, peers, actions) for rule in rules.sequence(0, _MOST)] if rules else []
    return spec


def _one_of(node: Node, names: tuple[str, ...], remedies: dict[str, str] | None = None) -> Fields:
    """The fields of a mapping that has exactly one."""
    fields = node.mapping(names, remedies)
    known = isinstance(node.value, dict) and not set(node.value) - set(names)
    count = len([name for name in names if fields.get(name)])
    remedy = f"write one of {', '.join(names)}"
    if known and count == 0:
        node.refuse(f"Invalid value: 0: {node.body} should have at least 1 properties", remedy)
    elif count > 1:
        node.refuse(f"Too many: {count}: must have at most 1 items", remedy)
    return fields


def _read_pods(fields: Fields) -> dict | None:
    """Workloads, by the labels of their namespaces or by those of both; None for other peers."""
    namespaces, pods = map(fields.get, _SUBJECTS)
    if namespaces:
        return {"namespaceSelector": read_selector(namespaces), "podSelector": read_selector(None)}
    if not pods:
        return None
    names = ("namespaceSelector", "podSelector")
    inner = pods.mapping(names)
    return {name: read_selector(inner.require(name, "write {} for all of them")) for name in names}


def _read_rule(node: Node, peers_name: str, actions: tuple[str, ...]) -> dict:
    fields = node.mapping(("name", "action", peers_name, "ports"))
    name, action = fields.get("name"), fields.require("action", f"use one of {', '.join(actions)}")
    peers, ports = fields.require(peers_name, "list at least one peer"), fields.get("ports")
    rule = {
        "name": (name.text(most=_LONGEST_NAME) or "") if name else "",
        "action": action.choice(actions) if action else None,
        "peers": [],
        "nodes": [],
        "networks": [],
        "ports": [_read_port(port) for port in ports.sequence(1, _MOST)] if ports else [],
    }
    for peer in peers.sequence(1, _MOST) if peers else ():
        _read_peer(peer, rule, is_egress=peers_name == "to")
    if (rule["nodes"] or rule["networks"]) and any("name" in port for port in rule["ports"]):
        node.refuse(
            "Invalid value: networks/nodes peer cannot be set with namedPorts since there are no namedPorts for "
            "networks/nodes",
            "write their numbers, or two rules",
        )
    return rule


def _read_peer(node: Node, rule: dict, *, is_egress: bool) -> None:
    """Add a peer to a rule: order has no meaning among the peers of one rule."""
    names = (*_SUBJECTS, *(_EXTERNAL if is_egress else ()))
    fields = _one_of(node, names, dict.fromkeys(_EXTERNAL, "external peers are for egress rules only"))
    pods = _read_pods(fields)
    if pods:
        rule["peers"].append(pods)
    if nodes := fields.get("nodes"):
        rule["nodes"].append(read_selector(nodes))
    if domains := fields.get("domainNames"):
        domains.refuse(
            "domainNames is accepted by the API, not supported by Heddle yet", "write the addresses as networks"
        )
    if networks := fields.get("networks"):
        items = networks.sequence(1, _MOST_NETWORKS)
        # A set of texts (`x-kubernetes-list-type`): another spelling of a network is another one.
        refuse_duplicates(items, [item.value if isinstance(item.value, str) else None for item in items])
        found = [read_cidr(item) for item in items]
        rule["networks"] += [str(one.value) for one in found if one]


def _read_port(node: Node) -> dict:
    fields = _one_of(node, _PORTS)
    number, several, name = map(fields.get, _PORTS)
    if name:
        return {"name": read_port_name(name)}
    if number:
        inner = number.mapping(("protocol", "port"))
        port = inner.require("port", "write its number")
        return {"protocol": _protocol(inner), "port": read_port_number(port) if port else None, "endPort": None}
    if not several:
        return {"protocol": None, "port": None, "endPort": None}
    inner = several.mapping(("protocol", "start", "end"))
    start, end = inner.require("start", "write the first port"), inner.require("end", "write the last port")
    first, last = (read_port_number(one) if one else None for one in (start, end))
    if first and last and first > last:
        end.refuse(f"Invalid value: {show(last)}: must not be less than start")
    return {"protocol": _protocol(inner), "port": first, "endPort": last}


def _protocol(fields: Fields) -> str | None:
    node = fields.get("protocol")
    return node.choice(PROTOCOLS) if node else "TCP"
