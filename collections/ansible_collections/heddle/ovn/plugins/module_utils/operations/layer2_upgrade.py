# SPDX-License-Identifier: Apache-2.0
"""The steps of the Layer2 upgrade on the stored state, each with the resulting plan."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict

from ..agent.module_runner import UserError
from ..common.serialization import pack
from ..controllers.admission.apply_manifests import AdmissionError, store
from ..controllers.layer2_steps import Blocker, Move, change_version, clean_up, drain, go_back, survey
from ..controllers.unfinished_moves import unfinished_moves
from ..plan import build_plan
from ..plan.address_holders import moved_addresses
from ..store.database import read
from ..store.layer2_version import GATEWAY_ROUTERS, TRANSIT_ROUTER, is_open, version_of
from ..store.snapshot import Snapshot
from .admission_service import state_changes
from .readiness import now, update_reports

TOPOLOGIES = {"transit-router": TRANSIT_ROUTER, "gateway-router": GATEWAY_ROUTERS}
# The state after a step, the workloads that it moves, and what blocks it.
Decision = tuple[Snapshot, list[Move], list[Blocker]]

# The first release of OVN whose northd has ports on a transit router (OVN's NEWS, v25.03.0).
FIRST_RELEASE = (25, 3)
_RELEASE = re.compile(r"(\d+)\.(\d+)")


def look_ahead(client, params: dict) -> dict:
    """Return the result of the module layer2_upgrade_info for its options; nothing is written.

    `client` is None when there is no state database yet, which counts as an empty one.
    """
    version, nodes = TOPOLOGIES[params["topology"]], params["nodes"]
    snapshot = read(client) if client else Snapshot()
    found = survey(snapshot, version, nodes, params["serial"])
    _after, moves, in_the_way = drain(snapshot, nodes, version) if nodes and found.versions else (snapshot, [], [])
    blockers = [*release_blockers(params["ovn_versions"]), *map(str, found.blockers)]
    changed_last = [found.versions.get(name, TRANSIT_ROUTER) for name in found.last_changed]
    result = {
        "survey": found.as_dict(),
        "blockers": blockers,
        "drain": {"moves": [asdict(move) for move in moves], "blockers": [str(blocker) for blocker in in_the_way]},
        "forwards": all(current == TRANSIT_ROUTER for current in changed_last),
        "revision": snapshot.revision,
    }
    if snapshot.of_kind("Node"):
        result["document"] = pack(build_plan(snapshot))
    return result


def release_blockers(versions: Mapping[str, str]) -> list[str]:
    """Return a line for each node without an OVN that knows transit routers.

    `versions` is what `ovn-nbctl --version` printed there; "" stands for a node that did not answer.
    """
    found = []
    for name, text in versions.items():
        release = _RELEASE.search(text)
        if release is None:
            found.append(
                f"node {name}: does not answer, has no OVN, or is left out by --limit; every node has to apply each "
                "step, so bring it back, or run this without a limit"
            )
        elif (int(release[1]), int(release[2])) < FIRST_RELEASE:
            first = ".".join(f"{number:02}" for number in FIRST_RELEASE)
            found.append(f"node {name}: its OVN {release[0]} knows no transit routers; {first} is the first that does")
    return found


def _change(before: Snapshot, nodes: list[str], version: str, moment: str) -> Decision:
    if all(version_of(node) == version for node in before.of_kind("Node") if node.name in nodes):
        return before, [], []
    after, blockers = change_version(before, nodes, version, moment)
    return after, [], blockers


def _return(before: Snapshot, _nodes: list[str], _version: str, moment: str) -> Decision:
    return go_back(before, moment)


def _clean_up(before: Snapshot, _nodes: list[str], _version: str, moment: str) -> Decision:
    after, blockers = clean_up(before, moment) if is_open(before) else (before, [])
    return after, [], blockers


_DECISIONS: dict[str, Callable[[Snapshot, list[str], str, str], Decision]] = {
    "drain": drain, "change": _change, "return": _return, "clean_up": _clean_up,
}  # fmt: skip
STEPS = tuple(_DECISIONS)


def run_step(client, params: dict, *, write: bool) -> dict:
    """Run one of `STEPS`; return the module's result.

    `client` is None when there is no state database yet. Raises UserError then, before manifests were applied, and with
    everything that blocks the step; nothing is written in either case.
    """
    if client is None:
        raise UserError("there is no state database yet; run heddle.ovn.site")
    moves: list[Move] = []

    def decide(before: Snapshot) -> tuple[Snapshot, list[Blocker]]:
        if not before.settings:
            raise UserError("the state database is empty; run heddle.ovn.networks")
        moment, goal = now(), TOPOLOGIES[params["topology"]]
        after, moves[:], blockers = _DECISIONS[params["step"]](before, params["nodes"], goal, moment)
        if after is not before and not blockers:
            update_reports(after, moment)
        return after, blockers

    try:
        before, after = store(client, decide, write=write)
    except AdmissionError as error:
        raise UserError(f"{len(error.problems)} blocker(s), nothing was changed:\n{error}") from error
    changes = state_changes(before, after)
    result = {
        "changed": bool(changes),
        "differences": [f"{change.kind} {change.name}" for change in changes],
        "moved": [asdict(move) for move in moves],
        "revision": after.revision,
    }
    if after.of_kind("Node"):
        plan = build_plan(after)
        moved = moved_addresses(build_plan(before), plan, unfinished=unfinished_moves(after))
        result |= {"document": pack(plan), "moved_addresses": moved}
    return result
