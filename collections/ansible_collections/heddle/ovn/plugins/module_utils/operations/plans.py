# SPDX-License-Identifier: Apache-2.0
"""The plans of the snapshots of one run: each is built once, however many steps need it."""

from __future__ import annotations

from collections.abc import Iterable

from ..common.serialization import pack
from ..plan import build_plan
from ..render.common.host_plan import HostPlans
from ..store.snapshot import Snapshot

# Of all parts in a result of a module, which Ansible keeps as a whole.
_MOST_BYTES = 32 * 1024 * 1024


class Plans:
    """Plans by snapshot. A snapshot is not to change after its plan was asked for, but for its revision."""

    def __init__(self) -> None:
        # The snapshots themselves are kept, so that none of another one gets the identity.
        self._known: list[tuple[Snapshot, dict]] = []
        # By the digest of the plan.
        self._hosts: dict[str, HostPlans] = {}

    def of(self, snapshot: Snapshot) -> dict:
        """Return the plan of a snapshot, as `build_plan`; equal snapshots have the same."""
        for one, plan in self._known:
            if one is snapshot or one == snapshot:
                return {**plan, "revision": snapshot.revision}
        plan = build_plan(snapshot)
        self._known.append((snapshot, plan))
        return plan

    def of_hosts(self, snapshot: Snapshot) -> HostPlans:
        """Return the parts of the plan of a snapshot that hosts need."""
        plan = self.of(snapshot)
        if plan["digest"] not in self._hosts:
            self._hosts[plan["digest"]] = HostPlans(plan)
        return self._hosts[plan["digest"]]

    def documents(self, snapshot: Snapshot, waiting: Iterable[str], *, moved: bool) -> dict:
        """Return what is sent to waiting hosts: `host_plans`, and `plan` where a host has to take the whole instead.

        That is where addresses are `moved`, which needs what all hosts have, and where the parts are too large.
        """
        waiting = list(waiting)
        parts = {} if moved else self.packed(snapshot, waiting)
        whole = {"plan": pack(self.of(snapshot))} if moved or (waiting and not parts) else {}
        return {"host_plans": parts, **whole}

    def packed(self, snapshot: Snapshot, hosts: Iterable[str]) -> dict[str, str]:
        """Return the packed parts of these hosts; none where they are so large that the whole plan is better."""
        plans, found, size = self.of_hosts(snapshot), {}, 0
        for name in hosts:
            found[name] = pack({**plans.of(name), "revision": snapshot.revision})
            size += len(found[name])
            if size > _MOST_BYTES:
                return {}
        return found

    def same(self, snapshot: Snapshot, other: Snapshot) -> Snapshot:
        """Note that `other` differs from `snapshot` in nothing that a plan depends on, and return it."""
        self._known.append((other, self.of(snapshot)))
        return other
