# SPDX-License-Identifier: Apache-2.0
"""What may not change once a network exists (the update rules of the current API).

OKEP-5193 makes the whole spec immutable; the current API lets the subnets of a Layer3 Primary network grow.
"""

from __future__ import annotations

from .network import LAYER3, SECONDARY
from .problem import Problem
from .resource import Resource

_NETWORK_KINDS = ("UserDefinedNetwork", "ClusterUserDefinedNetwork")
_LAYER3_IMMUTABLE = ("role", "mtu", "joinSubnets")
# Which namespaces a network serves may change at any time.
_NOT_THE_NETWORK = frozenset(["namespaceSelector"])
_REMEDY = "restore the value, or delete the network first"


def check_update(stored: Resource, wanted: Resource) -> list[Problem]:
    """The rules that the change from ``stored`` to ``wanted``, two versions of one resource, breaks."""
    if wanted.kind not in _NETWORK_KINDS:
        return []
    return [_problem(wanted, rule) for rule in _broken_rules(stored.spec, wanted.spec)]


def _broken_rules(stored: dict, wanted: dict) -> list[str]:
    topology = stored["topology"]
    if wanted["topology"] != topology:
        return [f"Topology is immutable: it is {topology}, not {wanted['topology']}"]
    if topology == LAYER3:
        return _broken_layer3_rules(stored, wanted)
    changed = [name for name in stored if name not in _NOT_THE_NETWORK and stored[name] != wanted[name]]
    return [f"{topology} is immutable: {', '.join(changed)} changed"] if changed else []


def _broken_layer3_rules(stored: dict, wanted: dict) -> list[str]:
    rules = [
        f"{name} is immutable: it is {stored[name]}, not {wanted[name]}"
        for name in _LAYER3_IMMUTABLE
        if stored[name] != wanted[name]
    ]
    if stored["subnets"] == wanted["subnets"]:
        return rules
    if stored["role"] == SECONDARY:
        return [*rules, "subnets is immutable for Secondary networks"]
    host_subnets = {subnet["cidr"]: subnet["hostSubnet"] for subnet in wanted["subnets"]}
    for subnet in stored["subnets"]:
        cidr = subnet["cidr"]
        if cidr not in host_subnets:
            rules.append(f"Removing existing subnets is not allowed: {cidr}")
        elif host_subnets[cidr] != subnet["hostSubnet"]:
            rules.append(f"hostSubnet is immutable: {cidr} has {subnet['hostSubnet']}, not {host_subnets[cidr]}")
    return rules


def _problem(resource: Resource, rule: str) -> Problem:
    name = resource.name if resource.namespace is None else f"{resource.namespace}/{resource.name}"
    return Problem(resource.source, f"{resource.kind} {name}", "spec", rule, _REMEDY)
