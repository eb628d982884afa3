# SPDX-License-Identifier: Apache-2.0
"""NetworkPolicy: which connections workloads on the primary network of a namespace may have (networking.k8s.io)."""

from __future__ import annotations

from ..kind import Kind
from ..policy.policy_spec import read_policy_spec

KIND = Kind(
    name="NetworkPolicy",
    api_versions=("networking.k8s.io/v1",),
    namespaced=True,
    # As kubectl does: upstream examples have none.
    default_namespace="default",
    read_spec=read_policy_spec,
)
