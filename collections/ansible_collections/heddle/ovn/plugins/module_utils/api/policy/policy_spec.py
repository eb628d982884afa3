# SPDX-License-Identifier: Apache-2.0
"""The spec of NetworkPolicy, with the rules and words of the Kubernetes API server (`ValidateNetworkPolicySpec`).

MultiNetworkPolicy (k8s.cni.cncf.io) has the same spec.
"""

from __future__ import annotations

from ..addresses import LONGEST_CIDR, NetworkField, parse_cidr
from ..node import Fields, Node
from ..problem import show
from ..selector import read_selector
from ..services.ports import read_port_name, read_port_number, read_protocol

INGRESS, EGRESS = "Ingress", "Egress"

_DIRECTIONS = ((INGRESS, "ingress", "from"), (EGRESS, "egress", "to"))
_CIDR_RULE = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"


def read_policy_spec(node: Node) -> dict:
    """The normalised spec.

    ``{"podSelector": selector, "policyTypes": ["Ingress", "Egress"], "ingress": [rule], "egress": [rule]}``; a rule is
    ``{"ports": [{"protocol": str, "port": int | str | None, "endPort": int | None}], "peers": [peer]}``, a peer
    ``{"podSelector": selector | None, "namespaceSelector": selector | None, "ipBlock": block | None}``, a block
    ``{"cidr": str, "except": [str]}`` with canonical CIDRs. Without ports or peers, a rule has empty lists.
    """
    names = ("podSelector", "policyTypes", *(name for _kind, name, _peers in _DIRECTIONS))
    # Without a spec, as in Kubernetes: all workloads of the namespace, and nothing may reach them.
    fields = Fields(node, {}, names, excused=frozenset()) if node.value is None else node.mapping(names)
    spec = {"podSelector": read_selector(fields.get("podSelector")), "policyTypes": _read_types(fields)}
    for _kind, name, peers in _DIRECTIONS:
        rules = fields.get(name)
        spec[name] = [_read_rule(rule, peers) for rule in rules.sequence()] if rules else []
    if not spec["policyTypes"]:
        spec["policyTypes"] = [INGRESS, *([EGRESS] if spec["egress"] else [])]
    return spec


def _read_types(fields: Fields) -> list[str]:
    node = fields.get("policyTypes")
    types = node.sequence() if node else []
    if len(types) > len(_DIRECTIONS):
        node.refuse("Invalid value: may not specify more than two policyTypes")
        return []
    chosen = [one.choice((INGRESS, EGRESS)) for one in types]
    return [kind for kind in (INGRESS, EGRESS) if kind in chosen]


def _read_rule(node: Node, peers_name: str) -> dict:
    fields = node.mapping(("ports", peers_name))
    ports, peers = fields.get("ports"), fields.get(peers_name)
    return {
        "ports": [_read_port(port) for port in ports.sequence()] if ports else [],
        "peers": [_read_peer(peer) for peer in peers.sequence()] if peers else [],
    }


def _read_port(node: Node) -> dict:
    fields = node.mapping(("protocol", "port", "endPort"))
    port, last = fields.get("port"), fields.get("endPort")
    found = {"protocol": read_protocol(fields), "port": None, "endPort": None}
    if port is None:
        if last:
            last.refuse(
                f"Invalid value: {show(last.value)}: may not be specified when `port` is not specified",
                "add port, the first one",
            )
        return found
    if isinstance(port.value, str):
        if last:
            last.refuse(f"Invalid value: {show(last.value)}: may not be specified when `port` is non-numeric")
        return {**found, "port": read_port_name(port)}
    found |= {"port": read_port_number(port), "endPort": read_port_number(last) if last else None}
    if found["port"] and found["endPort"] and found["endPort"] < found["port"]:
        last.refuse(f"Invalid value: {found['endPort']}: must be greater than or equal to `port`")
    return found


def _read_peer(node: Node) -> dict:
    names = ("podSelector", "namespaceSelector", "ipBlock")
    fields = node.mapping(names)
    pods, namespaces, block = map(fields.get, names)
    known = isinstance(node.value, dict) and not set(node.value) - set(names)
    if known and not (pods or namespaces or block):
        node.refuse("Required value: must specify a peer", f"add one of {', '.join(names)}")
    elif block and (pods or namespaces):
        node.refuse("Forbidden: may not specify both ipBlock and another peer", "write two peers")
    return {
        "podSelector": read_selector(pods) if pods else None,
        "namespaceSelector": read_selector(namespaces) if namespaces else None,
        "ipBlock": _read_block(block) if block else None,
    }


def _read_block(node: Node) -> dict:
    fields = node.mapping(("cidr", "except"))
    place, left_out = fields.require("cidr", "write a network, as in 10.0.0.0/24"), fields.get("except")
    whole = _read_cidr(place) if place else None
    parts = [part for part in map(_read_cidr, left_out.sequence()) if part] if left_out else []
    for part in parts if whole else ():
        inside = part.value.version == whole.value.version and part.value.subnet_of(whole.value)
        if not inside or part.value.prefixlen <= whole.value.prefixlen:
            rule = f"Invalid value: {show(part.node.value)}: must be a strict subset of `cidr`"
            part.node.refuse(rule, f"choose a part of {whole.value}")
    return {"cidr": str(whole.value) if whole else None, "except": [str(part.value) for part in parts]}


def _read_cidr(node: Node) -> NetworkField | None:
    text = node.text()
    if text is None:
        return None
    parsed = parse_cidr(text) if len(text) <= LONGEST_CIDR else None
    if parsed is None:
        node.refuse(f"Invalid value: {show(text)}: {_CIDR_RULE}")
        return None
    address, network = parsed
    return NetworkField(node, network, address == network.network_address)
