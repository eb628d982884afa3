# SPDX-License-Identifier: Apache-2.0
"""Admission rules: what is rejected outright, as by an API server and its admission policies; nothing is written then.

Which mistakes are rejected and which are reported in an object's status: docs/architecture.md, "Refused or reported".
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from ...api import Problem, Resource, Source, check_update
from ...api.names import is_label_key, is_label_value
from ...common.addressing import network_of
from ...common.naming import NODE_NAME, PRIMARY_NETWORK_LABEL, cluster_network, namespaced_network, prefix
from ...store import layer2_version
from ...store.settings import standard_subnet
from ...store.snapshot import Snapshot, StoredObject
from ..kind_names import MESH_KIND, NETWORK_KINDS
from ..network.attachment_definition import is_own
from ..network.networks import wanted_networks
from ..workload.placement import node_of
from .default_namespace import is_implicit
from .finalizers import held_networks, users

STORED, INVENTORY = Source("state database", 0, 0), Source("inventory", 0, 0)
# Object key, field, rule, remedy.
Refusal = tuple[str, str, str, str]


def problems(refusals: Iterable[Refusal], resources: list[Resource]) -> list[Problem]:
    """Return refusals as problems, each with the location of its manifest."""
    sources = {resource.key: resource.source for resource in resources}

    def source(key: str) -> Source:
        return sources.get(key) or (INVENTORY if key.partition("/")[0] in ("Settings", "Node") else STORED)

    return list(dict.fromkeys(Problem(source(refusal[0]), *refusal) for refusal in refusals))


def update_problems(resource: Resource, stored: StoredObject | None, manifest_set: str) -> Iterator[Problem]:
    """Compare a manifest with the stored object of the same name."""
    if stored is None:
        return

    def problem(path: str, rule: str, remedy: str) -> Problem:
        return Problem(resource.source, resource.key, path, rule, remedy)

    if is_own(stored):
        yield problem("metadata.name", f"is the attachment definition of {stored.spec['owner']}, which Heddle manages",
                      "leave it out; it follows its network")  # fmt: skip
        return
    if stored.manifest_set != manifest_set and not is_implicit(stored):
        yield problem("metadata.name", f"belongs to the manifest set {stored.manifest_set!r}",
                      "choose another name, or apply it with that set")  # fmt: skip
        return
    if stored.is_deleting:
        yield problem("metadata", f"is being deleted since {stored.status['deletionTimestamp']} and still in use",
                      "take its users away first, or leave it out until it is gone")  # fmt: skip
        return
    if resource.kind in (*NETWORK_KINDS, "AddressPool"):
        yield from check_update(stored, resource)
    elif resource.kind == "EndpointSlice" and stored.spec["addressType"] != resource.spec["addressType"]:
        yield problem("addressType", f'Invalid value: "{resource.spec["addressType"]}": field is immutable',
                      f"it is {stored.spec['addressType']}: put that back, or make another EndpointSlice")  # fmt: skip
    elif resource.kind == "Namespace" and (PRIMARY_NETWORK_LABEL in stored.labels) != (
        PRIMARY_NETWORK_LABEL in resource.labels
    ):
        rule = f"The '{PRIMARY_NETWORK_LABEL}' label cannot be added/removed after the namespace was created"
        had = "had it" if PRIMARY_NETWORK_LABEL in stored.labels else "did not have it"
        yield problem("metadata.labels", rule, f"the namespace {had}: put that back, or make another namespace")


def check_settings(before: Snapshot, settings: dict) -> Iterator[Refusal]:
    """Host subnets that are allocated stay, and so do the ranges they were taken from."""
    old = before.settings.get("cluster_subnets", settings["cluster_subnets"])
    # A state of an older release has them as they were written.
    if [*map(standard_subnet, old)] != settings["cluster_subnets"]:
        yield ("Settings", "cluster_subnets", f"cannot be changed: hosts have subnets of {', '.join(old)}",
               "put the old value back")  # fmt: skip
    yield from _ranges_that_move(before, settings)
    name = layer2_version.SETTING
    chosen = layer2_version.is_open(before) or before.settings.get(name) == "gateway-router"
    if before.revision and settings[name] == "gateway-router" and not chosen:
        yield ("Settings", name, "gateway-router can only be chosen for a cluster that has no hosts yet",
               "leave the setting out")  # fmt: skip


def _ranges_that_move(before: Snapshot, settings: dict) -> Iterator[Refusal]:
    """A range with allocated addresses may grow in place, but not move: hosts are changed one by one."""
    if not before.of_kind("Node"):
        return
    defaulted = any(
        entry.spec["role"] == "Primary" and not entry.spec["joinSubnets"]
        for entry in before.of_kind(*NETWORK_KINDS)
        if entry.kind != MESH_KIND
    )
    used = ["join_subnets", "transit_subnets", "masquerade_subnets", "service_subnets"]
    for name in [*used, *(["network_join_subnets"] if defaulted else [])]:
        old, new = before.settings.get(name, settings[name]), settings[name]
        if not all(any(_is_grown(one, other) for other in new) for one in old):
            yield ("Settings", name, f"cannot be changed: routers and hosts have addresses of {', '.join(old)}",
                   "put the old value back; a range may only become larger where it is")  # fmt: skip


def _is_grown(old: str, new: str) -> bool:
    before, after = network_of(old), network_of(new)
    same = before.version == after.version and before.network_address == after.network_address
    return same and after.prefixlen <= before.prefixlen


def check_nodes(nodes: list[StoredObject]) -> Iterator[Refusal]:
    """Reject two hosts with the same identity, as cloned VMs have: it would break the databases of all other hosts."""
    holders: dict[tuple[str, str], str] = {}
    for node in nodes:
        if not NODE_NAME.fullmatch(node.name):
            yield (node.key, "metadata.name", f"{node.name} cannot name a host in OVN",
                   "use lower case letters, digits, '-' and '.', and not the word join")  # fmt: skip
        yield from _label_mistakes(node)
        claims = [("system-id of Open vSwitch", node.spec.get("chassis"))]
        claims += [("tunnel address", address) for address in node.spec.get("encap_ips", [])]
        for what, value in claims:
            other = holders.setdefault((what, value), node.name) if value else node.name
            if other != node.name:
                remedy = "give each host its own; a cloned host needs a new /etc/openvswitch/system-id.conf"
                yield node.key, "spec", f"has the same {what} {value} as node {other}", remedy


def _label_mistakes(node: StoredObject) -> Iterator[Refusal]:
    for key, value in node.spec.get("labels", {}).items():
        if not is_label_key(str(key)) or not isinstance(value, str) or not is_label_value(value):
            yield (node.key, "metadata.labels", f"{key}: {value!r} is no label",
                   'write labels as in heddle_node_labels: {k8s.ovn.org/egress-assignable: ""}')  # fmt: skip


def check_names(entries: Iterable[Resource | StoredObject]) -> Iterator[Refusal]:
    """Reject two networks whose objects would have the same names: `-` and `.` map to the same character in OVN."""
    holders: dict[str, str] = {}
    for entry in entries:
        if entry.kind in NETWORK_KINDS:
            name = namespaced_network(entry.namespace, entry.name) if entry.namespace else cluster_network(entry.name)
            other = holders.setdefault(prefix(name), entry.key)
            if other != entry.key:
                yield (entry.key, "metadata.name",
                       f"its objects would have the same names as those of {other}: {prefix(name)}...",
                       "choose a name that differs in more than '-' and '.'")  # fmt: skip


def check_placement(workloads: Iterable[StoredObject], nodes: set[str]) -> Iterator[Refusal]:
    """Reject workloads on hosts that are not in the inventory."""
    for workload in workloads:
        if node_of(workload) not in nodes:
            yield (workload.key, "spec.node", f"node {workload.spec['node']} is not in the inventory",
                   f"use one of: {', '.join(sorted(nodes)) or 'none known'}")  # fmt: skip


def check_namespaces(before: Snapshot, after: Snapshot, given: set[str]) -> Iterator[Refusal]:
    """Reject objects in a namespace that does not exist or is being deleted.

    `given` are the keys of this run's manifests.
    """
    for entry in after.objects.values():
        if not entry.namespace or entry.key not in given:
            continue
        namespace = after.objects.get(f"Namespace/{entry.namespace}")
        stored = before.objects.get(f"Namespace/{entry.namespace}")
        if namespace is None or (namespace.is_deleting and stored is not None and not stored.is_deleting):
            yield (entry.key, "metadata.namespace", f"namespace {entry.namespace} does not exist",
                   "add a Namespace manifest")  # fmt: skip
        elif namespace.is_deleting and entry.key not in before.objects:
            rule = f"unable to create new content in namespace {entry.namespace} because it is being terminated"
            yield entry.key, "metadata.namespace", rule, "wait until it is gone, or use another namespace"


def check_released(after: Snapshot, released: Iterable[str]) -> Iterator[Refusal]:
    """Only workloads that no longer exist have addresses that can be released."""
    for name in released:
        if name.count("/") != 1:
            yield "Settings", "heddle_released", f"{name} is not NAMESPACE/NAME of a workload", "write it so"
        elif f"Workload/{name}" in after.objects:
            rule = "is to be released (heddle_released), and is there"
            yield f"Workload/{name}", "metadata.name", rule, "take it out of the manifests, or out of heddle_released"


def _networks_by_namespace(snapshot: Snapshot) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for network in wanted_networks(snapshot).values():
        for name in () if network.is_default else network.namespaces:
            found.setdefault(name, set()).add(network.name)
    return found


def check_limits(before: Snapshot, after: Snapshot) -> Iterator[Refusal]:
    """Reject networks beyond the limits of the settings; existing ones may stay, and removed ones free a place."""
    settings = after.settings
    total = settings["networks_total"]
    entries = after.of_kind(*NETWORK_KINDS)
    new = [entry for entry in entries if entry.key not in before.objects]
    if total and new and len(entries) > total:
        held = held_networks(after, users(before, after))
        count = sum(not entry.is_deleting or entry.key in held for entry in entries)
        if count > total:
            rule = f"the limit networks_total is {total}, and there would be {count} networks"
            yield from ((entry.key, "metadata", rule, "remove networks, or raise the limit") for entry in new)
    limit = settings["networks_per_namespace"]
    if not limit:
        return
    found = _networks_by_namespace(after)
    if not any(len(networks) > limit for networks in found.values()):
        return
    known = _networks_by_namespace(dataclasses.replace(before, settings=settings))
    for name, networks in sorted(found.items()):
        if len(networks) > limit and networks - known.get(name, set()):
            yield (f"Namespace/{name}", "metadata",
                   f"the limit networks_per_namespace is {limit}, and namespace {name} would have "
                   f"{len(networks)} networks",
                   "remove networks, take the namespace out of selectors, or raise the limit")  # fmt: skip
