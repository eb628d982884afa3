# SPDX-License-Identifier: Apache-2.0
"""MultiNetworkPolicy: which connections workloads may have on secondary networks (k8s.cni.cncf.io/v1beta1)."""

from __future__ import annotations

from ..kind import Kind
from ..policy.policy_for import read_policy_for
from ..policy.policy_spec import read_policy_spec

KIND = Kind(
    name="MultiNetworkPolicy",
    api_versions=("k8s.cni.cncf.io/v1beta1",),
    namespaced=True,
    default_namespace="default",
    read_spec=read_policy_spec,
    read_annotations=read_policy_for,
)
