# SPDX-License-Identifier: Apache-2.0
"""How many routers of an Egress may be down at a time (Coil, `podDisruptionBudget` of an Egress).

As in Kubernetes, a budget holds for what is decided, such as another node selector, and not for what happens: a
host that is gone, or whose kernel has no tunnels, has no routers any more.
"""

from __future__ import annotations

from ...store.snapshot import StoredObject


def may_be_down(egress: StoredObject) -> int | None:
    """Return the number of routers that may be down, None without a budget; percentages are rounded up."""
    budget, replicas = egress.spec.get("podDisruptionBudget"), egress.spec["replicas"]
    if not budget:
        return None
    if "maxUnavailable" in budget:
        return min(replicas, _number(budget["maxUnavailable"], replicas))
    return max(0, replicas - _number(budget["minAvailable"], replicas))


def _number(value: int | str, replicas: int) -> int:
    return -(-replicas * int(value[:-1]) // 100) if isinstance(value, str) else value
