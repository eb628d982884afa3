# SPDX-License-Identifier: Apache-2.0
"""NetworkAttachmentDefinitions: a network has one in each of its namespaces.

A network exists in a namespace exactly when its definition is there (OKEP-5193, "NetworkAttachmentDefinition
Rendering"; keys as ovn-kubernetes writes them). A definition that a user applied is foreign: it is stored, left alone,
and blocks a network that needs its name.
"""

from __future__ import annotations

import dataclasses
import json
import uuid

from ...common.naming import nad_key
from ...common.serialization import canonical
from ...store.snapshot import Snapshot, StoredObject
from .networks import DEFINITION_KIND, Network

FINALIZER = "k8s.ovn.org/user-defined-network-protection"
_DOMAIN = "k8s.ovn.org/"
_LABEL = "k8s.ovn.org/user-defined-network"
_CNI = "ovn-k8s-cni-overlay"
_IDENTIFIERS = uuid.UUID("6a0f7c3e-4d0b-5d0a-9d5c-0d6f3b1f7c11")


def uid(deployment: str, key: str) -> str:
    """Return the uid of an object: the same for the same deployment and key, so a restored object keeps it."""
    return str(uuid.uuid5(_IDENTIFIERS, f"{deployment}:{key}"))


def definition_key(namespace: str, name: str) -> str:
    """Return the key of a stored definition."""
    return f"{DEFINITION_KIND}/{nad_key(namespace, name)}"


def is_own(entry: StoredObject) -> bool:
    """Return whether Heddle made this definition."""
    return entry.kind == DEFINITION_KIND and "owner" in entry.spec


def own_definitions(snapshot: Snapshot) -> list[StoredObject]:
    """Return the definitions that Heddle made."""
    return [entry for entry in snapshot.of_kind(DEFINITION_KIND) if is_own(entry)]


def foreign_definitions(snapshot: Snapshot) -> list[StoredObject]:
    """Return the definitions that users applied."""
    return [entry for entry in snapshot.of_kind(DEFINITION_KIND) if not is_own(entry)]


def is_foreign_primary(entry: StoredObject) -> bool:
    """Return whether a user's definition asks for a primary network of this CNI."""
    try:
        config = json.loads(entry.spec["config"])
    except ValueError:
        return False
    return isinstance(config, dict) and config.get("type") == _CNI and config.get("role") == "primary"


def made_for(network: Network, namespace: str, now: str) -> StoredObject:
    """Return a network's new definition in a namespace; `filled` completes it once the network has its ids."""
    return StoredObject(
        kind=DEFINITION_KIND, name=network.nad_name, namespace=namespace,
        spec={"owner": network.object_key, "network": network.name}, status={"creationTimestamp": now},
    )  # fmt: skip


def filled(
    definition: StoredObject, network: Network, owner: StoredObject, snapshot: Snapshot, facts: dict
) -> StoredObject:
    """Return a definition with labels, annotations and configuration as they follow from its owner.

    `facts` are the network's `id`, `tunnelKeys` and `transitSubnets`, as in the owner's status; `id` may be missing.
    """
    config = canonical(_config(definition, network, owner, snapshot.settings, facts))
    metadata = {
        "name": definition.name,
        "namespace": definition.namespace,
        "labels": {**owner.labels, _LABEL: ""},
        "annotations": {**_inherited(owner), **_annotations(network, facts)},
        "finalizers": [FINALIZER],
        "ownerReferences": [
            {
                "apiVersion": "k8s.ovn.org/v1",
                "kind": owner.kind,
                "name": owner.name,
                "uid": uid(snapshot.name, owner.key),
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
    manifest = {
        "apiVersion": "k8s.cni.cncf.io/v1",
        "kind": DEFINITION_KIND,
        "metadata": metadata,
        "spec": {"config": config},
    }
    spec = {"owner": owner.key, "network": network.name, "config": config}
    return dataclasses.replace(definition, labels=metadata["labels"], spec=spec, manifest=manifest)


def _inherited(owner: StoredObject) -> dict:
    annotations = owner.manifest.get("metadata", {}).get("annotations") or {}
    return {key: value for key, value in annotations.items() if not key.startswith(_DOMAIN)}


def _annotations(network: Network, facts: dict) -> dict:
    found = {"k8s.ovn.org/network-name": network.name}
    if "id" in facts:
        found["k8s.ovn.org/network-id"] = str(facts["id"])
    if network.is_transit_routed and facts.get("tunnelKeys"):
        found["k8s.ovn.org/tunnel-keys"] = canonical(facts["tunnelKeys"])
    return found


def _config(definition: StoredObject, network: Network, owner: StoredObject, settings: dict, facts: dict) -> dict:
    spec = owner.spec
    config = {
        "cniVersion": "1.1.0",
        "type": _CNI,
        "name": network.name,
        "netAttachDefName": nad_key(definition.namespace, definition.name),
        "topology": network.topology.lower(),
        "role": network.role.lower(),
        "subnets": ",".join(map(_subnet_text, spec["subnets"])),
        "excludeSubnets": ",".join(spec["excludeSubnets"]),
        "reservedSubnets": ",".join(spec["reservedSubnets"]),
        "infrastructureSubnets": ",".join(spec["infrastructureSubnets"]),
        "defaultGatewayIPs": ",".join(spec["defaultGatewayIPs"]),
        "physicalNetworkName": spec["physicalNetworkName"],
        "vlanID": spec["vlan"],
        "mtu": network.mtu if network.topology == "Localnet" else spec["mtu"],
        "allowPersistentIPs": network.is_persistent,
    }
    if network.join_subnets:
        config["joinSubnet"] = ",".join(spec["joinSubnets"] or settings["network_join_subnets"])
    if network.is_transit_routed:
        config["transitSubnet"] = ",".join(facts.get("transitSubnets", ()))
    return {key: value for key, value in config.items() if value}


def _subnet_text(subnet: dict) -> str:
    return subnet["cidr"] + (f"/{subnet['hostSubnet']}" if subnet["hostSubnet"] else "")
