# SPDX-License-Identifier: Apache-2.0
"""AdminNetworkPolicy: rules of the cluster that come before those of NetworkPolicies (policy.networking.k8s.io)."""

from __future__ import annotations

from functools import partial

from ..kind import Kind
from ..policy.acl_logging import read_acl_logging
from ..policy.admin_policy_spec import read_admin_spec

KIND = Kind(
    name="AdminNetworkPolicy",
    api_versions=("policy.networking.k8s.io/v1alpha1",),
    namespaced=False,
    read_spec=partial(read_admin_spec, actions=("Allow", "Deny", "Pass"), has_priority=True),
    read_annotations=read_acl_logging,
)
