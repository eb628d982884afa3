# SPDX-License-Identifier: Apache-2.0
"""Namespace: the unit of tenancy; workloads and namespaced networks belong to one."""

from __future__ import annotations

from ..coil.coil import read_pool
from ..kind import Kind
from ..names import read_dns_label
from ..node import Node
from ..policy.acl_logging import read_acl_logging
from ..selector import NAMESPACE_NAME_LABEL


def _read_spec(node: Node) -> dict:
    """Only what a Kubernetes API server adds is permitted."""
    if node.value is not None:
        node.mapping(("finalizers",))
    return {}


KIND = Kind(
    name="Namespace",
    api_versions=("v1",),
    namespaced=False,
    read_spec=_read_spec,
    read_annotations=lambda annotations, spec: read_acl_logging(annotations, read_pool(annotations, spec)),
    read_name=read_dns_label,
    own_labels=lambda name: {NAMESPACE_NAME_LABEL: name},
)
