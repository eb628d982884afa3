# SPDX-License-Identifier: Apache-2.0
"""MeshNetwork (heddle.dev/v1): a Layer2 network across hosts without OVN, carried by the mesh (docs/mesh.md)."""

from __future__ import annotations

from ...common.naming import MESH_TOPOLOGY
from ..kind import Kind
from ..networks.network_fields import read_fields
from ..networks.network_transport import read_transport
from ..node import Node

NO_ENCRYPTION, ESP = "none", "esp"


def _read_spec(node: Node) -> dict | None:
    if node.value is None:
        node.refuse("Required value", "add it with role and subnets")
        return None
    fields = node.mapping(("role", "subnets", "excludeSubnets", "mtu", "encryption"))
    network = read_fields(fields, MESH_TOPOLOGY)
    fields.require("subnets", "list one CIDR per IP family")
    encryption = fields.get("encryption")
    chosen = encryption.choice((NO_ENCRYPTION, ESP)) if encryption else NO_ENCRYPTION
    return {**network.normal_form(), **read_transport(None), "encryption": chosen}


KIND = Kind(
    name="MeshNetwork",
    api_versions=("heddle.dev/v1",),
    namespaced=True,
    read_spec=_read_spec,
)
