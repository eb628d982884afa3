# SPDX-License-Identifier: Apache-2.0
"""The steps of the Layer2 upgrade on the stored state, each with the resulting plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

from ..agent.module_runner import UserError
from ..common.serialization import pack
from ..controllers.apply_manifests import AdmissionError, store
from ..controllers.layer2_steps import Blocker, change_version, clean_up, drain, go_back, survey
from ..plan import build_plan
from ..store.layer2_version import GATEWAY_ROUTERS, TRANSIT_ROUTER, is_open, version_of
from ..store.snapshot import Snapshot
from .admission_service import state_changes

STEPS = ("surveyed", "drained", "changed", "returned", "cleaned")
TOPOLOGIES = {"transit-router": TRANSIT_ROUTER, "gateway-router": GATEWAY_ROUTERS}

Decision = Callable[[Snapshot], tuple[Snapshot, list[Blocker]]]


def run_step(client, params: dict, *, write: bool) -> dict:
    """Run one step; return the module's result.

    `client` is None when there is no state database yet, which only check mode may ask. Raises UserError with
    everything that blocks the step; nothing is written then.
    """
    version, nodes = TOPOLOGIES[params["topology"]], params["nodes"]
    moves: list = []

    def surveyed(before: Snapshot) -> tuple[Snapshot, list[Blocker]]:
        return before, []

    def drained(before: Snapshot) -> tuple[Snapshot, list[Blocker]]:
        after, moves[:], blockers = drain(before, nodes, version)
        return after, blockers

    def changed(before: Snapshot) -> tuple[Snapshot, list[Blocker]]:
        if all(version_of(node) == version for node in before.of_kind("Node") if node.name in nodes):
            return before, []
        return change_version(before, nodes, version)

    def returned(before: Snapshot) -> tuple[Snapshot, list[Blocker]]:
        after, moves[:], blockers = go_back(before)
        return after, blockers

    def cleaned(before: Snapshot) -> tuple[Snapshot, list[Blocker]]:
        return clean_up(before) if is_open(before) else (before, [])

    decisions: dict[str, Decision] = dict(zip(STEPS, (surveyed, drained, changed, returned, cleaned), strict=True))
    try:
        before, after = store(client, decisions[params["step"]], write=write)
    except AdmissionError as error:
        raise UserError(f"{len(error.problems)} blocker(s), nothing was changed:\n{error}") from error
    changes = state_changes(before, after)
    found = survey(after, version, nodes if params["step"] == "surveyed" else [], params["serial"])
    result = {
        "changed": bool(changes),
        "differences": [f"{change.kind} {change.name}" for change in changes],
        "moved": [asdict(move) for move in moves],
        "survey": found.as_dict(),
        "revision": after.revision,
    }
    if after.of_kind("Node"):
        result["document"] = pack(build_plan(after))
    return result
