# SPDX-License-Identifier: Apache-2.0
"""Fields that are immutable once a network exists (the update rules of the current API).

As an API server does, the fields are compared as they were written: another spelling of the same value is a change.
A rule on an optional field applies only when the field was set before and still is. OKEP-5193 makes the whole spec
immutable; the current API lets the subnets of a Layer3 Primary network grow.
"""

from __future__ import annotations

from ..kinds.address_pool import DEFAULT_BITS
from ..problem import Problem, show
from ..resource import Resource
from .manifest_form import written_network
from .network import LAYER3, SECONDARY

_NETWORK_KINDS = ("UserDefinedNetwork", "ClusterUserDefinedNetwork")
_LAYER3_IMMUTABLE = ("role", "mtu", "joinSubnets")


def check_update(stored: Resource, wanted: Resource) -> list[Problem]:
    """The rules that the change from ``stored`` to ``wanted``, two versions of one resource, breaks."""
    if wanted.kind == "AddressPool":
        return [_problem(wanted, rule) for rule in _broken_pool_rules(stored.manifest["spec"], wanted.manifest["spec"])]
    if wanted.kind == "MeshNetwork":
        return [_problem(wanted, rule) for rule in _broken_mesh_rules(stored.manifest["spec"], wanted.manifest["spec"])]
    if wanted.kind not in _NETWORK_KINDS:
        return []
    old, new = written_network(stored.manifest), written_network(wanted.manifest)
    return [_problem(wanted, rule) for rule in _broken_rules(old, new)]


def _broken_mesh_rules(old: dict, new: dict) -> list[str]:
    # Encryption may begin and end: workloads keep their addresses, and connections between hosts are made anew.
    fields = {*old, *new} - {"encryption"}
    changed = sorted(field for field in fields if old.get(field) != new.get(field))
    return [f"MeshNetwork is immutable: {', '.join(changed)} changed"] if changed else []


def _broken_rules(old: dict, new: dict) -> list[str]:
    if new["topology"] != old["topology"]:
        return [f"Topology is immutable: it is {old['topology']}, not {new['topology']}"]
    rules = [
        f"{title} is immutable: it is {_text(old[name])}, not {_text(new[name])}"
        for name, title in (("transport", "Transport"), ("noOverlay", "NoOverlay"), ("uplinks", "uplinks"))
        if name in old and name in new and old[name] != new[name]
    ]
    if old["topology"] == LAYER3:
        return rules + _broken_layer3_rules(old["layer3"], new["layer3"])
    name = old["topology"].lower()
    changed = sorted(field for field in {*old[name], *new[name]} if old[name].get(field) != new[name].get(field))
    return [*rules, f"{old['topology']} is immutable: {', '.join(changed)} changed"] if changed else rules


def _broken_layer3_rules(old: dict, new: dict) -> list[str]:
    rules = [
        f"{name} is immutable: it is {_text(old[name])}, not {_text(new[name])}"
        for name in _LAYER3_IMMUTABLE
        if name in old and name in new and old[name] != new[name]
    ]
    if new["role"] == SECONDARY and new["subnets"] != old["subnets"]:
        rules.append("Subnets is immutable for Secondary role")
    host_subnets = {subnet["cidr"]: subnet.get("hostSubnet") for subnet in new["subnets"]}
    for subnet in old["subnets"]:
        cidr, host_subnet = subnet["cidr"], subnet.get("hostSubnet")
        if cidr not in host_subnets:
            rules.append(f"Removing existing subnets is not allowed: {cidr}")
        elif host_subnets[cidr] != host_subnet:
            rules.append(f"hostSubnet is immutable: {cidr} has {host_subnet}, not {host_subnets[cidr]}")
    return rules


def _broken_pool_rules(old: dict, new: dict) -> list[str]:
    """Coil v2: the size of blocks stays, and subnets are only appended, so an index means the same block forever."""
    rules = []
    before, after = (DEFAULT_BITS if (bits := spec.get("blockSizeBits")) is None else bits for spec in (old, new))
    if before != after:
        rules.append(f"blockSizeBits is immutable: it is {before}, not {after}")
    subnets, wanted = ([_set_fields(subnet) for subnet in spec["subnets"]] for spec in (old, new))
    if len(wanted) < len(subnets):
        rules.append(f"subnets cannot be removed: there are {len(subnets)}, not {len(wanted)}")
    rules += [
        f"subnets cannot be changed, only appended: number {place} is {_pool_subnet(one)}, not {_pool_subnet(other)}"
        for place, (one, other) in enumerate(zip(subnets, wanted, strict=False))
        if one != other
    ]
    return rules


def _set_fields(subnet: dict) -> dict:
    return {name: text for name, text in subnet.items() if text is not None}


def _pool_subnet(subnet: dict) -> str:
    return " and ".join(subnet[name] for name in sorted(subnet))


def _text(value) -> str:
    return ", ".join(value) if isinstance(value, list) else show(value).strip('"')


def _problem(resource: Resource, rule: str) -> Problem:
    name = resource.name if resource.namespace is None else f"{resource.namespace}/{resource.name}"
    what = "pool" if resource.kind == "AddressPool" else "network"
    return Problem(
        resource.source, f"{resource.kind} {name}", "spec", rule, f"restore the value, or delete the {what} first"
    )
