# SPDX-License-Identifier: Apache-2.0
"""Admission: computes the next snapshot as an API server and its controllers would.

A rule in `rules` rejects the whole change. Everything else is stored, realised as far as possible, and
reported in the status of the objects (`nad`, `workload`, `network_status`). Nothing is written here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping

from ...api import Problem, Resource, unsupported
from ...store import layer2_version
from ...store.snapshot import Snapshot, StoredObject
from ..address_holders import update_holders
from ..allocation.allocation import allocate, host_subnets, release_addresses
from ..coil.egress_routers import place_routers
from ..coil.egress_status import update_egresses
from ..coil.rules import check_pools
from ..coil.status import update_pools
from ..coil.without_ovn import check_without_ovn
from ..conditions import EPOCH, WORKLOAD_READY, condition
from ..egress.egress_rules import update_egress_rules
from ..encapsulation import decide as decide_encapsulation
from ..kind_names import NETWORK_KINDS
from ..network.attachment import Attachments
from ..network.attachment_definition import is_own, own_definitions
from ..network.namespace_claims import claim_namespaces
from ..network.network_selection import check_selections
from ..network.network_status import evaluate
from ..network.networks import Network, attached_networks, is_pending, is_unrendered, running_workloads
from ..policy.policies import update_policies
from ..services.cluster_ips import check_services
from ..services.load_balancer_addresses import check_external_ips, check_load_balancer_pools, check_own_external_ips
from ..services.node_ports import check_node_ports
from ..workload import move, placement
from ..workload.vm_placement import check_moving
from ..workload.workload import update_workloads
from . import rules
from .cluster_limits import shortages
from .default_namespace import add_default_namespace, leave_default_namespace
from .finalizers import asked_to_go, has_finalizer, release, users
from .path_mtu import check_path_mtu
from .rules import Refusal


def admit(
    before: Snapshot,
    resources: list[Resource],
    nodes: dict[str, dict],
    *,
    settings: dict,
    manifest_set: str,
    name: str = "heddle",
    released: Collection[str] = (),
    unrendered: Mapping[str, str] | None = None,
    now: str = EPOCH,
) -> tuple[Snapshot, list[Problem]]:
    """Return the snapshot after `resources` replace the content of `manifest_set`, and all reasons to reject it.

    Objects of other sets stay. `nodes` are the hosts of the inventory: name -> {"chassis": id or None,
    "encap_ips": [addresses]}; a host without values this time keeps its previous ones. `released` are
    workloads that no longer exist (`namespace/name`) and whose addresses are to be freed. `unrendered` says why
    networks cannot be rendered, by the key of their object; they are stored and left out of the plan. `now` is the time
    for the status, as in 2025-05-13T18:01:05Z.
    """
    after = dataclasses.replace(before, name=before.name or name, settings=settings)
    after.objects = _objects(before, resources, manifest_set, now)
    after.objects |= {entry.key: entry for entry in _nodes(before, nodes)}
    place_routers(before, after, now)
    add_default_namespace(after, now)
    layer2_version.begin(after, before)
    for workload in after.of_kind("Workload"):
        after.objects[workload.key] = move.completed(placement.scheduled(workload, nodes.keys()), nodes.keys())

    given = {resource.key for resource in resources}
    problems = [
        problem
        for resource in resources
        for problem in rules.update_problems(resource, before.objects.get(resource.key), manifest_set)
    ]
    undecided = list(decide_encapsulation(before, after))
    found: list[Refusal] = [
        *undecided,
        *rules.check_settings(before, settings),
        *rules.check_nodes(after.of_kind("Node")),
        *_check_supported(after),
        *rules.check_names(after.of_kind(*NETWORK_KINDS)),
        *rules.check_namespaces(before, after, given),
        *rules.check_placement(after.of_kind("Workload"), set(nodes)),
        *rules.check_limits(before, after),
        *rules.check_released(after, released),
        *(check_path_mtu(before, after) if not undecided else ()),
        *check_moving(before, after),
        *check_services(before, after),
        *check_node_ports(before, after),
        *check_load_balancer_pools(after),
        *check_external_ips(after),
        *check_pools(before, after),
        *check_without_ovn(before, after),
    ]
    if not problems and not found:
        before = release_addresses(before, released)
        order = {resource.key: place for place, resource in enumerate(resources)}
        found = _run_controllers(before, after, order, unrendered or {}, now)
    return after, problems + rules.problems(found, resources)


def check_alone(resources: list[Resource], nodes: list[str]) -> list[Problem]:
    """Return the errors of manifests that do not depend on stored state: `nodes` are the hosts of the inventory."""
    alone = Snapshot(objects=_objects(Snapshot(), resources, "", EPOCH))
    found = [
        *rules.check_nodes([StoredObject(kind="Node", name=name) for name in nodes]),
        *_check_supported(alone),
        *rules.check_names(alone.of_kind(*NETWORK_KINDS)),
        *rules.check_placement(alone.of_kind("Workload"), set(nodes)),
    ]
    return rules.problems(found, resources)


def _objects(before: Snapshot, resources: list[Resource], manifest_set: str, now: str) -> dict[str, StoredObject]:
    """Return the stored objects with the new manifests; what a set no longer contains is removed or marked deleted."""
    objects = {}
    given = {resource.key for resource in resources}
    for key, entry in before.objects.items():
        if entry.kind == "Node" or (entry.manifest_set == manifest_set and key in given):
            continue
        if entry.manifest and entry.manifest_set == manifest_set and not is_own(entry):
            if has_finalizer(entry):
                objects[key] = asked_to_go(entry, now)
        else:
            objects[key] = entry
    for resource in resources:
        stored = before.objects.get(resource.key)
        if stored is not None and _is_unchanged(stored, resource, manifest_set):
            # The same object, so that it is found to be unchanged without another comparison.
            objects[resource.key] = stored
            continue
        status = {"creationTimestamp": now, **(stored.status if stored else {})}
        objects[resource.key] = StoredObject(
            kind=resource.kind, name=resource.name, namespace=resource.namespace or "", manifest_set=manifest_set,
            labels=resource.labels, spec=resource.spec, manifest=resource.manifest, status=status,
        )  # fmt: skip
    return objects


def _is_unchanged(stored: StoredObject, resource: Resource, manifest_set: str) -> bool:
    return (
        stored.manifest_set == manifest_set
        and stored.spec == resource.spec
        and stored.labels == resource.labels
        and stored.manifest == resource.manifest
        and "creationTimestamp" in stored.status
    )


def _nodes(before: Snapshot, nodes: dict[str, dict]) -> list[StoredObject]:
    known = {entry.name: entry for entry in before.of_kind("Node")}
    found = {name: known.get(name) or StoredObject(kind="Node", name=name) for name in sorted(nodes)}
    return [dataclasses.replace(node, spec=_reported(node.spec, nodes[name])) for name, node in found.items()]


def _reported(known: dict, spec: dict) -> dict:
    """Return what a host reported, and what it reported earlier where it did not now; paths count one by one."""
    found = {field: value for field, value in spec.items() if value is not None}
    if "paths" in found:
        found["paths"] = {**known.get("paths", {}), **found["paths"]}
    return {**known, **found}


def _check_supported(snapshot: Snapshot) -> list[Refusal]:
    """Reject fields that the API defines and this version does not support, instead of ignoring them silently."""
    return [(entry.key, *mistake) for entry in snapshot.of_kind(*NETWORK_KINDS) for mistake in unsupported(entry.spec)]


def _run_controllers(
    before: Snapshot, after: Snapshot, order: dict[str, int], unrendered: Mapping[str, str], now: str
) -> list[Refusal]:
    """Run the controllers: definitions, workloads, allocations, status. Return why the change is impossible, if so."""
    for entry in after.of_kind(*NETWORK_KINDS):
        after.objects[entry.key] = entry.with_status(unrendered=unrendered.get(entry.key))
    using = users(before, after)
    leave_default_namespace(after, using, now)
    release(after, using, now)
    claims = claim_namespaces(after, before, using, order, unrendered, now)
    if claims.broken:
        return [
            (key, "spec.subnets", rule, "the network exists and its subnets cannot be changed: choose other subnets")
            for key, broken in claims.broken.items()
            for rule in broken
        ]
    attachments = Attachments(attached_networks(after))
    refused = [*check_selections(after, attachments, order), *check_own_external_ips(after, attachments)]
    if refused:
        return refused
    stage = before
    while True:
        allocating = _Allocating(stage, after, unrendered, now)
        refused = allocating.run()
        if refused:
            return refused
        if not allocating.has_left_out or _served(after) <= _served(stage):
            update_holders(before, after, now)
            evaluate(after, before, claims, allocating.failures, now)
            update_policies(after, now)
            update_egress_rules(after, now)
            update_pools(before, after, now)
            update_egresses(after, now)
            return []
        # An object may have been left out in favour of others that were then left out too: retry, as the next run
        # would.
        stage = dataclasses.replace(after, objects=dict(after.objects))


def _served(snapshot: Snapshot) -> set[str]:
    """Return the keys that got what they asked for: networks and workloads."""
    return {*snapshot.allocations.get("network-id", {}), *(workload.key for workload in running_workloads(snapshot))}


class _Allocating:
    """Allocates for every object possible; leaves out an object without an allocation, and retries without it."""

    def __init__(self, before: Snapshot, after: Snapshot, unrendered: Mapping[str, str], now: str) -> None:
        self.before = before
        self.after = after
        self.now = now
        self.networks = attached_networks(after)
        known = before.allocations.get("network-id", {})
        unapplied = {entry.key for entry in before.of_kind(*NETWORK_KINDS) if is_unrendered(entry)}
        self.running = {workload.key for workload in running_workloads(before)}
        self.realised = {
            one.spec["owner"] for one in own_definitions(before) if one.spec["network"] in known
        } - unapplied
        self.left_out = frozenset(unrendered)
        self.without: set[str] = set(unrendered)
        self.unrendered = {
            name for one in self.networks.values() if one.object_key in unrendered for name in one.namespaces
        }
        self.failed: dict[str, str] = {}
        self.unserved: set[tuple[str, str]] = set()
        self.failures: dict[str, list[str]] = {}

    def run(self) -> list[Refusal]:
        """Allocate, and set each workload's status; return what makes the whole change impossible."""
        while True:
            found = {name: one for name, one in self.networks.items() if one.object_key not in self.without}
            update_workloads(self.after, self.before, found, self.failed, self.unserved, self.now)
            stopped = self._stopped()
            if stopped:
                return stopped
            # Allocation replaces pools as a whole.
            self.after.allocations = dict(self.before.allocations)
            self.after.cursors = dict(self.before.cursors)
            known = (len(self.without), len(self.failed), len(self.unserved))
            refused = []
            kept = {name: one.object_key for name, one in self.networks.items() if one.object_key in self.left_out}
            failures = allocate(self.after, found, self.running, kept) + shortages(self.after, found)
            for key, rule, remedy in failures:
                refused += self._leave_out(found, key, rule, remedy)
            if refused:
                return refused
            if known == (len(self.without), len(self.failed), len(self.unserved)):
                return []

    @property
    def has_left_out(self) -> bool:
        """Return whether an object was left out."""
        return bool(self.without or self.failed or self.unserved)

    def _leave_out(self, found: dict[str, Network], key: str, rule: str, remedy: str) -> list[Refusal]:
        message = f"{rule}; {remedy}"
        kind = key.partition("/")[0]
        if kind == "Workload":
            self.failed.setdefault(key, message)
            return []
        if kind not in NETWORK_KINDS:
            return [(key, "spec", rule, remedy)]
        messages = self.failures.setdefault(key, [])
        if message in messages or key in self.without:
            return []
        network = next(one for one in found.values() if one.object_key == key)
        missing = self._nodes_without(network)
        if missing and len(missing) < len(self.after.of_kind("Node")):
            # Same text as ovn-kubernetes: the first node without an allocation; the others have the network.
            messages.append(f"failed to allocate for node {missing[0]}: {message}")
            messages[:] = list(dict.fromkeys(messages))
            self.unserved |= {(network.name, node) for node in missing}
            return []
        if key in self.realised:
            return [(key, "spec", rule, remedy)]
        messages.append(message)
        self.without.add(key)
        return []

    def _stopped(self) -> list[Refusal]:
        """Reject a change that stops a running workload: it would lose its addresses."""
        return [
            (
                workload.key,
                "spec",
                f"it runs, and would have to stop: {condition(workload, WORKLOAD_READY)['message']}",
                "leave out what takes that from it, or take the workload away first",
            )
            for workload in self.after.of_kind("Workload")
            if workload.key in self.running and is_pending(workload) and workload.namespace not in self.unrendered
        ]

    def _nodes_without(self, network: Network) -> list[str]:
        if network.topology != "Layer3":
            return []
        return [
            node.name
            for node in self.after.of_kind("Node")
            if len(host_subnets(self.after, network, node.name)) < len(network.families)
        ]
