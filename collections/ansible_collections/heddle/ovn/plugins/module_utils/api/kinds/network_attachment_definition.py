# SPDX-License-Identifier: Apache-2.0
"""NetworkAttachmentDefinition: those applied by users are stored and ignored; Heddle writes its own."""

from __future__ import annotations

from ..kind import Kind
from ..node import Node


def _read_spec(node: Node) -> dict | None:
    """A definition without a configuration is valid: its CNI then looks for a file on the host."""
    if node.value is None:
        return {"config": ""}
    config = node.mapping(("config",)).get("config")
    return {"config": "" if config is None else config.text()}


KIND = Kind(
    name="NetworkAttachmentDefinition",
    api_versions=("k8s.cni.cncf.io/v1",),
    namespaced=True,
    # As kubectl has it.
    default_namespace="default",
    read_spec=_read_spec,
)
