# SPDX-License-Identifier: Apache-2.0
"""LoadBalancerPool (heddle.dev/v1): addresses of the provider network for Services of the type LoadBalancer."""

from __future__ import annotations

import ipaddress

from ..addresses import NetworkField, read_cidr
from ..kind import Kind
from ..node import Node


def _read_spec(node: Node) -> dict | None:
    """The normalised spec: ``{"subnets": [CIDR]}``."""
    if node.value is None:
        node.refuse("Required value", "add it with subnets")
        return None
    fields = node.mapping(("subnets",))
    subnets = fields.require("subnets", "list at least one subnet of the provider network")
    found = [read_cidr(item) for item in subnets.sequence(1)] if subnets else []
    return {"subnets": [str(one.value) for one in found if one and _is_whole(one)]}


def _is_whole(field: NetworkField) -> bool:
    """Whether the CIDR was written without host bits: with them, other addresses would be meant than are given."""
    if not field.masked:
        single = ipaddress.ip_network(field.value.network_address).prefixlen
        field.node.refuse(
            f"Invalid value: {field.node.value} has host bits set",
            f"write {field.value}, or the prefix length {single} for one address",
        )
    return field.masked


KIND = Kind(name="LoadBalancerPool", api_versions=("heddle.dev/v1",), namespaced=False, read_spec=_read_spec)
