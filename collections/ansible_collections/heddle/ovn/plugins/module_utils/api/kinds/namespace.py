# SPDX-License-Identifier: Apache-2.0
"""Namespace: what a tenant owns; networks are asked for and workloads live in one."""

from __future__ import annotations

from ..kind import Kind
from ..names import read_dns_label
from ..node import Node
from ..selector import NAMESPACE_NAME_LABEL


def _read_spec(node: Node) -> dict:
    """Nothing but what a Kubernetes API server adds may be there."""
    if node.value is not None:
        node.mapping(("finalizers",))
    return {}


KIND = Kind(
    name="Namespace",
    api_versions=("v1",),
    namespaced=False,
    read_spec=_read_spec,
    read_name=read_dns_label,
    own_labels=lambda name: {NAMESPACE_NAME_LABEL: name},
)
