# SPDX-License-Identifier: Apache-2.0
"""Rules across objects, and the step from one snapshot to the next.

Nothing is stored here. `admit` returns the next snapshot and every problem found; a snapshot with problems is thrown
away by its caller.
"""

from __future__ import annotations

import copy
import re

from ..addressing import overlapping
from ..model import Problem, Resource, Source, check_update
from ..naming import DEFAULT_NETWORK, PRIMARY_NETWORK_LABEL, prefix, workload_port
from . import layer2_version, placement
from .allocation import allocate
from .capacity import shortages
from .networks import NETWORK_KINDS, Network, networks, networks_by_namespace
from .snapshot import Snapshot, StoredObject

NODE_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?")
STORED = Source("state database", 1, 1)


def admit(
    before: Snapshot,
    resources: list[Resource],
    nodes: dict[str, dict],
    *,
    settings: dict,
    manifest_set: str,
    name: str = "heddle",
) -> tuple[Snapshot, list[Problem]]:
    """Return the snapshot after `resources` replace what `manifest_set` held, and all problems.

    Objects of other sets stay. `nodes` are the hosts of the inventory: name -> {"chassis": id or None,
    "encapsulation": [addresses]}; a host that told nothing this time keeps what it told before.
    """
    after = copy.deepcopy(before)
    after.name = after.name or name
    after.settings = settings
    sources = {resource.key: resource.source for resource in resources}
    after.objects = {
        key: entry
        for key, entry in before.objects.items()
        if entry.kind != "Node" and (entry.manifest_set != manifest_set or key in sources)
    }
    after.objects |= {entry.key: entry for entry in _nodes(before, nodes)}
    layer2_version.begin(after, before)

    problems: list[Problem] = []
    for resource in resources:
        stored = before.objects.get(resource.key)
        problems += _unchangeable(resource, stored, manifest_set)
        after.objects[resource.key] = StoredObject(
            kind=resource.kind, name=resource.name, namespace=resource.namespace or "", manifest_set=manifest_set,
            labels=resource.labels, spec=resource.spec, manifest=resource.manifest,
            status=stored.status if stored else {},
        )  # fmt: skip

    def problem(key: str, path: str, rule: str, remedy: str) -> None:
        problems.append(Problem(sources.get(key, STORED), key, path, rule, remedy))

    for workload in after.of_kind("Workload"):
        after.objects[workload.key] = placement.settled(workload, set(nodes))
    found = networks(after)
    _check_settings(before, settings, problem)
    _check_nodes(after, problem)
    _check_supported(after, problem)
    _check_names(found, problem)
    _check_namespaces(after, found, problem)
    _check_workloads(after, problem)
    _check_subnets(after, found, problem)
    for key, rule, remedy in allocate(after, found) + shortages(after, found):
        problem(key, "spec", rule, remedy)
    return after, problems


def _nodes(before: Snapshot, nodes: dict[str, dict]) -> list[StoredObject]:
    known = {entry.name: entry.spec for entry in before.of_kind("Node")}
    return [
        StoredObject(
            kind="Node",
            name=name,
            spec={**known.get(name, {}), **{field: value for field, value in spec.items() if value is not None}},
        )
        for name, spec in sorted(nodes.items())
    ]


def _unchangeable(resource: Resource, stored: StoredObject | None, manifest_set: str) -> list[Problem]:
    if stored is None:
        return []
    problems = []
    if stored.manifest_set != manifest_set:
        problems.append(
            Problem(
                resource.source, resource.key, "metadata.name", f"belongs to the manifest set {stored.manifest_set!r}",
                "choose another name, or apply it with that set",
            )
        )  # fmt: skip
    if resource.kind in NETWORK_KINDS:
        problems += check_update(stored, resource)
    return problems


def _check_supported(snapshot: Snapshot, problem) -> None:
    """Refuse what the API knows and this version cannot carry out, instead of leaving it out silently."""
    for entry in snapshot.of_kind(*NETWORK_KINDS):
        if entry.spec["topology"] == "Localnet":
            problem(entry.key, "spec.topology", "Localnet networks are not supported yet", "use Layer2 or Layer3")
        elif entry.spec["ipam"]["mode"] == "Disabled":
            problem(entry.key, "spec.ipam.mode", "networks without IPAM are not supported yet", "give subnets")
        if entry.spec["defaultGatewayIPs"]:
            rule = "chosen gateway addresses are not supported yet; the first address of a subnet is its gateway"
            problem(entry.key, "spec.defaultGatewayIPs", rule, "leave the field out")


def _check_names(found: dict[str, Network], problem) -> None:
    """Refuse two networks whose objects would have the same names: `-` and `.` look alike in OVN."""
    holders: dict[str, Network] = {}
    for network in found.values():
        other = holders.setdefault(prefix(network.name), network)
        if other is not network:
            problem(network.object_key, "metadata.name",
                    f"its objects would have the same names as those of {other.object_key}: {prefix(network.name)}...",
                    "choose a name that differs in more than '-' and '.'")  # fmt: skip


def _check_settings(before: Snapshot, settings: dict, problem) -> None:
    """Host subnets that were given out stay; so do the ranges that they were taken from."""
    old = before.settings.get("cluster_subnets", settings["cluster_subnets"])
    if old != settings["cluster_subnets"]:
        problem("Settings", "cluster_subnets", f"cannot be changed: hosts have subnets of {', '.join(old)}",
                "put the old value back")  # fmt: skip
    name = layer2_version.SETTING
    if before.revision and settings[name] == "gateway-router" and before.settings.get(name) != settings[name]:
        problem("Settings", name, "gateway-router can only be chosen for a cluster that has no hosts yet",
                "leave the setting out")  # fmt: skip


def _check_nodes(snapshot: Snapshot, problem) -> None:
    """Two hosts with one identity, as clones of a machine have it, would break every other host's databases."""
    holders: dict[tuple[str, str], str] = {}
    for node in snapshot.of_kind("Node"):
        if not NODE_NAME.fullmatch(node.name) or node.name == "join":
            problem(node.key, "metadata.name", f"{node.name} cannot name a host in OVN",
                    "use lower case letters, digits, '-' and '.', and not the word join")  # fmt: skip
        claims = [("system-id of Open vSwitch", node.spec.get("chassis"))]
        claims += [("tunnel address", address) for address in node.spec.get("encapsulation", [])]
        for what, value in claims:
            other = holders.setdefault((what, value), node.name) if value else node.name
            if other != node.name:
                remedy = "give each host its own; a cloned host needs a new /etc/openvswitch/system-id.conf"
                problem(node.key, "spec", f"has the same {what} {value} as node {other}", remedy)


def _check_namespaces(snapshot: Snapshot, found: dict[str, Network], problem) -> None:
    namespaces = {entry.name: entry for entry in snapshot.of_kind("Namespace")}
    for network in found.values():
        if network.is_default:
            continue
        for namespace in network.namespaces:
            if namespace not in namespaces:
                problem(network.object_key, "metadata.namespace", f"namespace {namespace} does not exist",
                        "add a Namespace manifest")  # fmt: skip
            elif network.role == "Primary" and PRIMARY_NETWORK_LABEL not in namespaces[namespace].labels:
                problem(network.object_key, "spec.role",
                        f"invalid primary network state: namespace {namespace} lacks the label {PRIMARY_NETWORK_LABEL}",
                        "add the label to the Namespace manifest")  # fmt: skip
    serving = networks_by_namespace(found)
    for name, serving_it in serving.items():
        ports: dict[str, Network] = {}
        for network in serving_it:
            other = ports.setdefault(workload_port(name, "", network.nad_name), network)
            if other is not network:
                problem(network.object_key, "metadata.name",
                        f"namespace {name} would have two attachments of one name: {other.object_key} is called so too",
                        "rename one, or take the namespace out of the selector")  # fmt: skip
    workloads: dict[str, list[StoredObject]] = {}
    for workload in snapshot.of_kind("Workload"):
        workloads.setdefault(workload.namespace, []).append(workload)
    for name, namespace in namespaces.items():
        primary = [network for network in serving.get(name, []) if network.role == "Primary"]
        for network in primary[1:]:
            problem(network.object_key, "spec.role",
                    f"primary network already exist in namespace {name}: {primary[0].object_key}",
                    "make one of them Secondary or take the namespace out of its selector")  # fmt: skip
        if PRIMARY_NETWORK_LABEL in namespace.labels and not primary:
            for workload in workloads.get(name, []):
                problem(workload.key, "metadata.namespace",
                        f"namespace {name} is labelled for a primary network and has none",
                        "add the network, or take the label away")  # fmt: skip


def _check_workloads(snapshot: Snapshot, problem) -> None:
    namespaces = {entry.name for entry in snapshot.of_kind("Namespace")}
    nodes = {entry.name for entry in snapshot.of_kind("Node")}
    for workload in snapshot.of_kind("Workload"):
        if workload.namespace not in namespaces:
            problem(workload.key, "metadata.namespace", f"namespace {workload.namespace} does not exist",
                    "add a Namespace manifest")  # fmt: skip
        if placement.node_of(workload) not in nodes:
            problem(workload.key, "spec.node", f"node {workload.spec['node']} is not in the inventory",
                    f"use one of: {', '.join(sorted(nodes)) or 'none known'}")  # fmt: skip


def _check_subnets(snapshot: Snapshot, found: dict[str, Network], problem) -> None:
    """Refuse overlaps of a network with what every host shares (facts of ovn-kubernetes, NAD validation)."""
    settings = snapshot.settings
    cluster = [subnet["cidr"] for subnet in found[DEFAULT_NETWORK].subnets]
    shared = [("cluster", cluster)] + [
        (label, settings[name])
        for label, name in (
            ("service", "service_subnets"),
            ("default join", "join_subnets"),
            ("masquerade", "masquerade_subnets"),
        )
    ]
    for network in found.values():
        if network.is_default or network.topology == "Localnet":
            continue
        own = [subnet["cidr"] for subnet in network.subnets] + list(network.join_subnets)
        others = shared + ([("transit", settings["transit_subnets"])] if network.topology == "Layer3" else [])
        for label, subnets in others:
            for subnet in own:
                clash = next((other for other in subnets if overlapping(subnet, other)), None)
                if clash:
                    problem(network.object_key, "spec.subnets",
                            f"pod or join subnet overlaps: {subnet} with the {label} subnet {clash}",
                            "choose another subnet")  # fmt: skip
        for subnet in network.subnets:
            for join in network.join_subnets:
                if overlapping(subnet["cidr"], join):
                    problem(network.object_key, "spec.joinSubnets",
                            f"pod or join subnet overlaps: {subnet['cidr']} with the network's own join subnet {join}",
                            "choose another join subnet")  # fmt: skip
