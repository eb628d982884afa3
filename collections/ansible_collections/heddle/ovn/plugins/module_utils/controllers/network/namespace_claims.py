# SPDX-License-Identifier: Apache-2.0
"""Decides which network gets an attachment definition in which namespace, and reports why others do not.

Nothing here rejects a manifest: what a controller would detect after the API server accepted it is reported in the
network's status, and the network exists wherever it can (OKEP-5193, "Validations").
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ...common.naming import PRIMARY_NETWORK_LABEL, nad_key, workload_port
from ...store.snapshot import Snapshot, StoredObject
from ..admission.finalizers import why_it_stays
from ..admission.overlaps import ProviderNetworks, missing_families, with_shared_subnets
from .attachment_definition import (
    definition_key,
    foreign_definitions,
    is_foreign_primary,
    is_own,
    made_for,
    own_definitions,
)
from .networks import Network, attached_networks, is_pending, wanted_networks


@dataclass
class Claims:
    """The result, each by the key of a network's object.

    `errors` say where a network is missing and why, `conflicts` which other network claims to be primary in the same
    namespace, `broken` which rule an existing network violates.
    """

    errors: dict[str, list[str]] = field(default_factory=dict)
    conflicts: dict[str, list[str]] = field(default_factory=dict)
    broken: dict[str, list[str]] = field(default_factory=dict)


@dataclass
class _Namespace:
    """The networks and workloads that a namespace has already."""

    labels: dict = field(default_factory=dict)
    networks: list[Network] = field(default_factory=list)
    ports: dict[str, str] = field(default_factory=dict)
    foreign_primary: str = ""
    # Workloads that run without a primary network.
    workloads: list[str] = field(default_factory=list)


class _Claiming:
    """One pass over all networks: first those with definitions, then by order of creation."""

    def __init__(
        self,
        snapshot: Snapshot,
        before: Snapshot,
        using: dict[str, list[str]],
        unrendered: Mapping[str, str],
        now: str,
    ) -> None:
        self.snapshot = snapshot
        self.unrendered = unrendered
        self.using = using
        self.now = now
        self.wanted = wanted_networks(snapshot)
        self._provider = ProviderNetworks(snapshot.of_kind("Node"))
        self.namespaces = {entry.name: _Namespace(entry.labels) for entry in snapshot.of_kind("Namespace")}
        self.claims = Claims()
        self.leaving: dict[str, list[StoredObject]] = {}
        for definition in own_definitions(snapshot):
            if definition.is_deleting:
                self.leaving.setdefault(definition.spec["owner"], []).append(definition)
        for network in attached_networks(snapshot).values():
            for name in () if network.is_default else network.namespaces:
                self._enter(self.namespaces[name], name, network)
        for definition in foreign_definitions(snapshot):
            if definition.namespace in self.namespaces and is_foreign_primary(definition):
                self.namespaces[definition.namespace].foreign_primary = definition.key
        for workload in snapshot.of_kind("Workload"):
            self._note_running(workload, before.objects.get(workload.key))

    def _note_running(self, workload: StoredObject, stored: StoredObject | None) -> None:
        namespace = self.namespaces[workload.namespace]
        if PRIMARY_NETWORK_LABEL not in namespace.labels:
            namespace.workloads.append(f"{workload.namespace}/{workload.name}")
        if PRIMARY_NETWORK_LABEL not in namespace.labels or stored is None or is_pending(stored):
            return
        primaries = {nad_key(stored.namespace, one.nad_name) for one in namespace.networks if one.role == "Primary"}
        if not primaries & set(stored.status["attachments"]):
            namespace.workloads.append(f"{workload.namespace}/{workload.name}")

    @staticmethod
    def _enter(namespace: _Namespace, name: str, network: Network) -> None:
        namespace.networks.append(network)
        namespace.ports[workload_port(name, "", nad_key(name, network.nad_name))] = network.object_key

    def claim(self, network: Network) -> None:
        """Make a network's missing definitions, or record why not."""
        mistakes = with_shared_subnets(network, self.wanted, self.snapshot.settings)
        mistakes += missing_families(network, self.wanted)
        # A network keeps its definitions when a rule is broken later: workloads may run on it.
        unrendered = [self.unrendered[network.object_key]] if network.object_key in self.unrendered else []
        beside = self._provider.overlaps(network)
        errors = mistakes + unrendered + beside
        entry = self.snapshot.objects[network.object_key]
        if entry.namespace and not network.namespaces and not entry.is_deleting:
            errors.append(f"namespace {entry.namespace} is being terminated")
        standing = False
        for name in network.namespaces:
            definition = self.snapshot.objects.get(definition_key(name, network.nad_name))
            if definition is not None and is_own(definition) and definition.spec["owner"] == network.object_key:
                standing = True
                self._keep(network, name, definition, errors)
            elif not mistakes and not unrendered and not beside:
                self._make(network, name, definition, errors)
        if mistakes and standing:
            self.claims.broken[network.object_key] = mistakes
        self._note_leftovers(network, errors)
        if errors:
            self.claims.errors[network.object_key] = errors

    def _keep(self, network: Network, name: str, definition: StoredObject, errors: list[str]) -> None:
        if definition.is_deleting:
            errors.append(why_it_stays(definition, self.using))
        foreign = self.namespaces[name].foreign_primary
        if foreign and network.role == "Primary":
            self.claims.conflicts.setdefault(network.object_key, []).append(
                f"{foreign} asks for a primary network in namespace {name} too and is ignored"
            )

    def _make(self, network: Network, name: str, definition: StoredObject | None, errors: list[str]) -> None:
        namespace = self.namespaces[name]
        mistakes = list(self._mistakes(network, name, namespace, definition))
        if mistakes:
            errors += mistakes
            return
        made = made_for(network, name, self.now)
        self.snapshot.objects[made.key] = made
        self._enter(namespace, name, network)

    def _mistakes(
        self, network: Network, name: str, namespace: _Namespace, definition: StoredObject | None
    ) -> Iterator[str]:
        if definition is not None:
            owner = f" (it belongs to {definition.spec['owner']})" if is_own(definition) else ""
            yield (
                "foreign NetworkAttachmentDefinition with the desired name already exist "
                f"[{nad_key(name, network.nad_name)}]{owner}"
            )
        other = namespace.ports.get(workload_port(name, "", nad_key(name, network.nad_name)))
        if definition is None and other is not None:
            yield f"namespace {name} would have two attachments of one name: {other} is called so too"
        if network.role == "Primary":
            yield from self._primary_mistakes(network, name, namespace)

    def _primary_mistakes(self, network: Network, name: str, namespace: _Namespace) -> Iterator[str]:
        if PRIMARY_NETWORK_LABEL not in namespace.labels:
            yield (
                f"invalid primary network state: namespace {name} lacks the label {PRIMARY_NETWORK_LABEL}, "
                "which it can only get when it is created"
            )
        holder = next((one.object_key for one in namespace.networks if one.role == "Primary"), None)
        if holder is not None:
            self.claims.conflicts.setdefault(holder, []).append(
                f"{network.object_key} asks to be the primary network of namespace {name} too and is rejected"
            )
        if holder or namespace.foreign_primary:
            yield f"primary network already exist in namespace {name}: {holder or namespace.foreign_primary}"
        elif namespace.workloads:
            workloads = ", ".join(namespace.workloads)
            yield f"namespace {name} has workloads without a primary network: [{workloads}]"

    def _note_leftovers(self, network: Network, errors: list[str]) -> None:
        """Record an error for definitions in namespaces that the network no longer selects."""
        for definition in self.leaving.get(network.object_key, ()):
            if definition.namespace not in network.namespaces:
                errors.append(why_it_stays(definition, self.using))

    def all(self, order: dict[str, int]) -> Claims:
        """Process every network's claims."""

        def place(network: Network) -> tuple:
            entry = self.snapshot.objects[network.object_key]
            return entry.status.get("creationTimestamp", ""), order.get(entry.key, -1), entry.key

        networks = [network for network in self.wanted.values() if not network.is_default]
        networks.sort(key=place)
        for network in networks:
            self.claim(network)
        if self.claims.errors:
            # Networks processed early see only now which network got the name instead, as they will in the next run.
            self.claims = Claims()
            for network in networks:
                self.claim(network)
        return self.claims


def claim_namespaces(
    snapshot: Snapshot,
    before: Snapshot,
    using: dict[str, list[str]],
    order: dict[str, int],
    unrendered: Mapping[str, str],
    now: str,
) -> Claims:
    """Create every network's definitions in `snapshot`, as far as the rules allow.

    A network with a definition keeps it. Of several new networks the older one wins, and of those of one run the one
    that `order` (key -> position in the manifests) has first. `unrendered` says why networks cannot be rendered, by the
    key of their object.
    """
    return _Claiming(snapshot, before, using, unrendered, now).all(order)
