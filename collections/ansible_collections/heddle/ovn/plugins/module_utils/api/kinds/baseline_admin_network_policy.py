# SPDX-License-Identifier: Apache-2.0
"""BaselineAdminNetworkPolicy: rules of the cluster for what no other policy decides (policy.networking.k8s.io)."""

from __future__ import annotations

from functools import partial

from ..kind import Kind
from ..names import ONLY_NAME
from ..node import Node
from ..policy.acl_logging import read_acl_logging
from ..policy.admin_policy_spec import read_admin_spec
from ..problem import show


def _read_name(node: Node) -> str | None:
    text = node.text()
    if text in (None, ONLY_NAME):
        return text
    node.refuse(
        f'Invalid value: {show(text)}: Only one baseline admin network policy with metadata.name="{ONLY_NAME}" can be '
        "created in the cluster",
        f"name it {ONLY_NAME}",
    )
    return None


KIND = Kind(
    name="BaselineAdminNetworkPolicy",
    api_versions=("policy.networking.k8s.io/v1alpha1",),
    namespaced=False,
    read_spec=partial(read_admin_spec, actions=("Allow", "Deny"), has_priority=False),
    read_annotations=read_acl_logging,
    read_name=_read_name,
)
