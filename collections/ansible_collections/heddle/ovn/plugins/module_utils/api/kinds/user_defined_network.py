# SPDX-License-Identifier: Apache-2.0
"""UserDefinedNetwork: a network for one namespace (OKEP-5193, "Namespace scoped CRD")."""

from __future__ import annotations

from ..kind import Kind
from ..networks.network import LAYER2, LAYER3
from ..networks.network_forms import read_network
from ..node import Node


def _read_spec(node: Node) -> dict | None:
    if node.value is None:
        node.refuse("Required value", "add it with the fields of the network")
        return None
    return read_network(node, (LAYER2, LAYER3))


KIND = Kind(
    name="UserDefinedNetwork",
    api_versions=("k8s.ovn.org/v1", "k8s.ovn.org/v1alpha1"),
    # OKEP-5193's own examples have none.
    api_version_required=False,
    namespaced=True,
    # As kubectl has it.
    default_namespace="default",
    read_spec=_read_spec,
)
