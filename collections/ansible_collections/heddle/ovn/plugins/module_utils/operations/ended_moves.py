# SPDX-License-Identifier: Apache-2.0
"""Result of the module `moved_address`: hosts have applied the plan by which addresses moved, so the moves are over.

A run of networks.yml records this with the readiness of networks; other playbooks by this module.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

from ..agent.module_runner import UserError
from ..api import Problem
from ..common.change import Outcome
from ..common.serialization import unpack
from ..controllers.admission.apply_manifests import ConflictError, store
from ..controllers.unfinished_moves import end_moves
from ..store.snapshot import Snapshot
from .admission_service import state_changes
from .plans import Plans


def record_moved(client, document: str, hosts: Collection[str], *, write: bool) -> dict:
    """Record that hosts have applied the plan in `document`; return the result of the module.

    Nothing is recorded when another run has changed the plan since: hosts have not applied that one.
    """
    if client is None:
        raise UserError("there is no state database yet; run heddle.ovn.site")
    plans, digest = Plans(), unpack(document)["digest"]

    def decide(before: Snapshot) -> tuple[Snapshot, list[Problem]]:
        if plans.of(before)["digest"] != digest:
            return before, []
        after = dataclasses.replace(before, objects=dict(before.objects))
        end_moves(after, hosts)
        return after, []

    try:
        before, after = store(client, decide, write=write)
    except ConflictError as error:
        raise UserError(str(error)) from error
    changed = Outcome(state_changes(before, after)).changed
    return {"changed": changed, "overtaken": plans.of(before)["digest"] != digest}
