# SPDX-License-Identifier: Apache-2.0
"""The labels of nodes: those of the inventory, the name, and the EgressServices whose host a node is."""

from __future__ import annotations

from ..store.snapshot import Snapshot, StoredObject

HOST_NAME_LABEL = "kubernetes.io/hostname"
EGRESS_SERVICE = "EgressService"
_EGRESS_SERVICE_PREFIX = "egress-service.k8s.ovn.org/"


def own_labels(node: StoredObject) -> dict[str, str]:
    """Return the labels that do not depend on other objects."""
    return {HOST_NAME_LABEL: node.name, **node.spec.get("labels", {})}


def labels_of_nodes(snapshot: Snapshot) -> dict[str, dict[str, str]]:
    """Return the labels of every node, by its name.

    As in ovn-kubernetes the host of an EgressService has the label `egress-service.k8s.ovn.org/NAMESPACE-NAME`, by
    which other objects may select it.
    """
    found = {node.name: own_labels(node) for node in snapshot.of_kind("Node")}
    for entry in snapshot.of_kind(EGRESS_SERVICE):
        host = entry.status.get("host")
        if host in found:
            found[host][f"{_EGRESS_SERVICE_PREFIX}{entry.namespace}-{entry.name}"] = ""
    return found
