# SPDX-License-Identifier: Apache-2.0
"""Writes the status of networks and namespaces after a run: conditions, ids, active namespaces."""

from __future__ import annotations

from ...common.naming import MESH_TOPOLOGY
from ...store.snapshot import Snapshot, StoredObject
from ..admission.finalizers import contents
from ..allocation.transit import chosen_transit_subnets
from ..allocation.tunnel_keys import key_ranges
from ..conditions import (
    CONFLICT,
    FALSE,
    MANAGED,
    NODES_SELECTED,
    READY,
    TRUE,
    WAITING_FOR_HOSTS,
    allocated,
    condition,
    created,
    described,
    with_conditions,
)
from ..kind_names import NETWORK_KINDS
from .attachment_definition import filled, foreign_definitions, own_definitions
from .host_gateways import without_gateway
from .namespace_claims import Claims
from .networks import Network, attached_networks, is_unrendered


def evaluate(snapshot: Snapshot, before: Snapshot, claims: Claims, failures: dict[str, list[str]], now: str) -> None:
    """Write the status of every network and namespace of `snapshot`, and complete the attachment definitions.

    `failures` says by network what could not be allocated.
    """
    attached = {network.object_key: network for network in attached_networks(snapshot).values()}
    definitions: dict[str, list[StoredObject]] = {}
    for definition in own_definitions(snapshot):
        definitions.setdefault(definition.spec["owner"], []).append(definition)
    for entry in snapshot.of_kind(*NETWORK_KINDS):
        network = attached.get(entry.key)
        facts = _facts(snapshot, network, entry) if network else None
        active = [one.namespace for one in definitions.get(entry.key, ()) if not one.is_deleting]
        conditions = [created(entry, active, claims.errors.get(entry.key, []))]
        if network:
            conditions.append(allocated(failures.get(entry.key, [])))
        if claims.conflicts.get(entry.key):
            message = "; ".join(claims.conflicts[entry.key])
            conditions.append(described(CONFLICT, TRUE, "PrimaryNetworkClaimedTwice", message))
        if network and network.has_host_gateway:
            conditions += [one for one in (without_gateway(snapshot),) if one]
        # select_nodes wrote it.
        conditions += _untimed(condition(entry, NODES_SELECTED))
        conditions.append(_readiness(entry, before, facts))
        is_realised = bool(facts and "id" in facts)
        updated = entry.with_status(
            activeNamespaces=active if is_realised else [],
            network=facts,
            hosts=entry.status.get("hosts") if is_realised else None,
        )
        snapshot.objects[entry.key] = with_conditions(updated, conditions, now)
        for definition in definitions.get(entry.key, ()):
            snapshot.objects[definition.key] = filled(definition, network, entry, snapshot, facts)
    for entry in foreign_definitions(snapshot):
        message = "it was applied by a user, so Heddle ignores it: no network is created from it"
        foreign = described(MANAGED, FALSE, "ForeignNetworkAttachmentDefinition", message)
        snapshot.objects[entry.key] = with_conditions(entry, [foreign], now)
    for entry in snapshot.of_kind("Namespace"):
        snapshot.objects[entry.key] = _namespace_status(snapshot, entry, now)


def _facts(snapshot: Snapshot, network: Network, entry: StoredObject) -> dict:
    facts: dict = {"name": network.name}
    identifier = snapshot.get("network-id", network.name)
    if identifier is None or is_unrendered(entry):
        return facts
    tunnelled = network.topology not in ("Localnet", MESH_TOPOLOGY)
    keys = [key_ranges(snapshot).of_network(int(identifier))] if tunnelled else []
    if network.is_transit_routed:
        keys.append(int(snapshot.get("tunnel-key", network.name)))
        facts["transitSubnets"] = chosen_transit_subnets(snapshot, network)
    return {**facts, "id": int(identifier), "tunnelKeys": keys}


def _readiness(entry: StoredObject, before: Snapshot, facts: dict | None) -> dict:
    """Return the condition NetworkReady: what hosts reported last, as long as the network exists."""
    if facts is None:
        return described(READY, FALSE, "NetworkNotCreated", "the network is in no namespace, so no host has it")
    if is_unrendered(entry):
        return described(READY, FALSE, "NetworkNotRendered", "it cannot be rendered, so no host has it")
    if "id" not in facts:
        return described(READY, FALSE, "NetworkNotAllocated", "the network has no ids yet, so no host has it")
    stored = before.objects.get(entry.key)
    known = condition(stored, READY) if stored else None
    if known and known["reason"] not in ("NetworkNotCreated", "NetworkNotAllocated", "NetworkNotRendered"):
        return _untimed(known)[0]
    return WAITING_FOR_HOSTS


def _untimed(known: dict | None) -> list[dict]:
    """Return a stored condition as `described` makes it, in a list; nothing for None."""
    return [{name: known[name] for name in ("type", "status", "reason", "message")}] if known else []


def _namespace_status(snapshot: Snapshot, entry: StoredObject, now: str) -> StoredObject:
    if not entry.is_deleting:
        return entry.with_status(phase="Active")
    left = contents(snapshot, entry.name)
    message = f"waits for what is in it: {', '.join(left)}"
    remaining = described("NamespaceContentRemaining", TRUE, "SomeResourcesRemain", message)
    return with_conditions(entry.with_status(phase="Terminating"), [remaining], now)
