# SPDX-License-Identifier: Apache-2.0
"""The plans of the snapshots of one run: each is built once, however many steps need it."""

from __future__ import annotations

from ..plan import build_plan
from ..render.common.host_plan import host_plan_digests
from ..store.snapshot import Snapshot


class Plans:
    """Plans by snapshot. A snapshot is not to change after its plan was asked for, but for its revision."""

    def __init__(self) -> None:
        # The snapshots themselves are kept, so that none of another one gets the identity.
        self._known: list[tuple[Snapshot, dict]] = []
        # The digests of the hosts' parts, by that of the plan.
        self._digests: dict[str, dict[str, str]] = {}

    def of(self, snapshot: Snapshot) -> dict:
        """Return the plan of a snapshot, as `build_plan`; equal snapshots have the same."""
        for one, plan in self._known:
            if one is snapshot or one == snapshot:
                return {**plan, "revision": snapshot.revision}
        plan = build_plan(snapshot)
        self._known.append((snapshot, plan))
        return plan

    def digests(self, snapshot: Snapshot) -> dict[str, str]:
        """Return the digest of each node's part of the plan of a snapshot."""
        plan = self.of(snapshot)
        if plan["digest"] not in self._digests:
            self._digests[plan["digest"]] = host_plan_digests(plan)
        return self._digests[plan["digest"]]

    def same(self, snapshot: Snapshot, other: Snapshot) -> Snapshot:
        """Note that `other` differs from `snapshot` in nothing that a plan depends on, and return it."""
        self._known.append((other, self.of(snapshot)))
        return other
