# SPDX-License-Identifier: Apache-2.0
"""Workload: Heddle's own kind for something on a host that is attached to the networks of its namespace."""

from __future__ import annotations

from ..kind import Kind
from ..names import read_dns_label, read_dns_subdomain
from ..node import Node

_NETWORK_NAMESPACE = "netns"


def _read_spec(node: Node) -> dict | None:
    if node.value is None:
        node.refuse("is required", "add it with node")
        return None
    fields = node.mapping(("node", "kind", "movable"))
    host = fields.require("node", "name the host that it runs on")
    kind = fields.get("kind")
    movable = fields.get("movable")
    return {
        "node": read_dns_subdomain(host) if host else None,
        "kind": kind.choice((_NETWORK_NAMESPACE,)) if kind else _NETWORK_NAMESPACE,
        # Whether an operation that empties the node may stop it there and start it elsewhere.
        "movable": movable.boolean() if movable else True,
    }


KIND = Kind(
    name="Workload",
    api_versions=("heddle.dev/v1",),
    namespaced=True,
    read_spec=_read_spec,
    # It becomes part of file names and of a host name.
    read_name=read_dns_label,
)
