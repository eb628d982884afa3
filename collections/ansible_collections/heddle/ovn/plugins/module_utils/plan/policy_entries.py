# SPDX-License-Identifier: Apache-2.0
"""The plan's entry of the policies of each network: which workloads they select, and what they allow."""

from __future__ import annotations

from ..controllers.network.networks import Network
from ..controllers.policy.policies import resolved_policies
from ..store.snapshot import Snapshot


def policy_entries(snapshot: Snapshot, found: dict[str, Network]) -> dict[str, dict]:
    """Return the policies by network, without networks that have none."""
    return {
        name: {
            "policies": on.policies,
            **({"admin": on.admin} if on.admin else {}),
            "selections": on.selections,
            "ports": on.ports,
        }
        for name, on in resolved_policies(snapshot, found).items()
    }
