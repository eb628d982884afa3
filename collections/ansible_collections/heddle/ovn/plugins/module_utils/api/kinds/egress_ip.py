# SPDX-License-Identifier: Apache-2.0
"""EgressIP: addresses that workloads have beyond the cluster, each held by one node (k8s.ovn.org/v1)."""

from __future__ import annotations

from ..addresses import read_address
from ..kind import Kind
from ..node import Node
from ..selector import read_selector


def _read_spec(node: Node) -> dict:
    """The normalised spec.

    ``{"egressIPs": [address], "namespaceSelector": selector, "podSelector": selector}``; addresses are canonical, each
    once.
    """
    fields = node.mapping(("egressIPs", "namespaceSelector", "podSelector"))
    listed = fields.require("egressIPs", "list the addresses that the workloads get")
    namespaces = fields.require("namespaceSelector", "write {} for every namespace")
    found = [read_address(item) for item in listed.sequence()] if listed else []
    return {
        "egressIPs": list(dict.fromkeys(str(one.value) for one in found if one)),
        "namespaceSelector": read_selector(namespaces),
        "podSelector": read_selector(fields.get("podSelector")),
    }


KIND = Kind(name="EgressIP", api_versions=("k8s.ovn.org/v1",), namespaced=False, read_spec=_read_spec)
