# SPDX-License-Identifier: Apache-2.0
"""EgressQoS: the DSCP of what workloads of a namespace send beyond the cluster (k8s.ovn.org/v1)."""

from __future__ import annotations

from ..addresses import read_cidr
from ..kind import Kind
from ..names import read_default_name
from ..node import Node
from ..selector import read_selector

# RFC 2474, section 3: six bits.
_LARGEST_DSCP = 63
# ovn-kubernetes: priorities 1000 down to 1.
_MOST_RULES = 1000


def _read_spec(node: Node) -> dict:
    """The normalised spec: ``{"egress": [{"dscp": int, "dstCIDR": str | None, "podSelector": selector}]}``."""
    if node.value is None:
        return {"egress": []}
    fields = node.mapping(("egress",))
    rules = fields.require("egress", "list the rules; the first one that matches applies")
    return {"egress": [_read_rule(item) for item in rules.sequence(most=_MOST_RULES)] if rules else []}


def _read_rule(node: Node) -> dict:
    fields = node.mapping(("dscp", "dstCIDR", "podSelector"))
    dscp, target = fields.require("dscp", f"write a number from 0 to {_LARGEST_DSCP}"), fields.get("dstCIDR")
    found = read_cidr(target) if target else None
    return {
        "dscp": dscp.integer(0, _LARGEST_DSCP) if dscp else None,
        "dstCIDR": str(found.value) if found else None,
        "podSelector": read_selector(fields.get("podSelector")),
    }


KIND = Kind(
    name="EgressQoS",
    api_versions=("k8s.ovn.org/v1",),
    namespaced=True,
    default_namespace="default",
    read_spec=_read_spec,
    read_name=read_default_name,
)
