# SPDX-License-Identifier: Apache-2.0
"""Computes the next state from a module's arguments and the stored state, and stores it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from ..agent.module_runner import UserError
from ..api import Problem, unpacked
from ..common.change import Change
from ..common.naming import DEFAULT_NETWORK
from ..common.serialization import unpack
from ..controllers.admission.admission import admit
from ..controllers.admission.apply_manifests import AdmissionError, ConflictError, store
from ..controllers.unfinished_moves import unfinished_moves
from ..plan.address_holders import Reported
from ..render.common.changed_networks import BY_NETWORK, differing_names
from ..render.common.hosting_nodes import hosting_nodes
from ..render.rehearsal import unrenderable
from ..store import settings as state_settings
from ..store.database import differences
from ..store.snapshot import Snapshot
from .limited_moves import refuse_left_out
from .plans import Plans
from .readiness import changed_places, now, with_changes_unconfirmed

# Parts of a plan whose entries are of one network each.
_BY_NETWORK = (*BY_NETWORK, "egress_firewalls")
# No state reaches this revision by counting. OVSDB's integers have 64 bits (RFC 7047, section 3.1).
_LATEST = 1 << 62


def next_state(
    params: dict,
    client,
    *,
    write: bool,
    plans: Plans | None = None,
    kept: Mapping[str, dict | None] | None = None,
    left_out: Collection[str] = (),
    reported: Reported | None = None,
) -> tuple[Snapshot, Snapshot]:
    """Return the state before and after the module's arguments; with `write` it is stored.

    `kept` has the `deployment` and `revision` of the plan that each host has. `left_out` are hosts beyond the limit of
    the run, `reported` the addresses that others have for workloads. Raises UserError with all problems of the
    manifests, one per line.
    """
    moment, plans = now(), plans or Plans()
    try:
        resources = [unpacked(data) for data in unpack(params["resources"])]
        settings = state_settings.complete(params["settings"])
    except ValueError as error:
        raise UserError(str(error)) from error

    def decide(before: Snapshot) -> tuple[Snapshot, list[Problem]]:
        if not before.revision:
            _refuse_lost_state(params["deployment"], kept or {})

        def attempt(unrendered: dict[str, str]) -> tuple[Snapshot, list[Problem]]:
            return admit(
                before,
                resources,
                {name: node or {} for name, node in params["nodes"].items()},
                settings=settings,
                manifest_set=params["manifest_set"],
                name=params["deployment"],
                released=params["released"],
                unrendered=unrendered,
                now=moment,
            )

        after, problems = _rendered(before, attempt, plans)
        if not problems:
            if before.revision:
                refuse_left_out(plans.of(before), plans.of(after), left_out, unfinished_moves(after), reported)
            after = with_changes_unconfirmed(before, after, moment, plans)
            after = _later_than(before, after, params["deployment"], kept or {})
        return after, problems

    try:
        return store(client, decide, write=write)
    except AdmissionError as error:
        raise UserError(f"{len(error.problems)} problem(s), nothing was written:\n{error}") from error
    except ConflictError as error:
        raise UserError(str(error)) from error


def _refuse_lost_state(deployment: str, kept: Mapping[str, dict | None]) -> None:
    """Raise UserError where hosts have plans of a deployment of which an empty database has no state.

    New networks and workloads would get ids and addresses that hosts have others for; and hosts that got nothing for
    long would take such a plan, while all others would refuse it as older than theirs.
    """
    having = sorted(name for name, one in kept.items() if one and one["deployment"] == deployment)
    if having:
        raise UserError(
            f"the state database is empty, and hosts have plans of deployment {deployment}: {', '.join(having)}; "
            "nothing was written. Restore a backup with heddle.ovn.state_restore, or remove /var/lib/heddle/plan.json "
            "from these hosts to begin anew, with other ids and addresses"
        )


def _later_than(before: Snapshot, after: Snapshot, deployment: str, kept: Mapping[str, dict | None]) -> Snapshot:
    """Return `after` with a revision that is later than those of all plans of the deployment on hosts.

    A host takes no plan of an earlier revision. One that did not answer while a backup was restored may have got its
    plan from the state that was replaced; else no host has a later plan than the state.
    """
    revisions = [one["revision"] for one in kept.values() if one and one["deployment"] == deployment]
    latest = max(revisions, default=0)
    if latest >= _LATEST:
        names = ", ".join(sorted(name for name, one in kept.items() if one and one["revision"] >= _LATEST))
        raise UserError(
            f"/var/lib/heddle/plan.json of {names} has revision {latest}, which no run has made; nothing was written. "
            "Remove the file there; the next run writes it anew"
        )
    return replace(after, revision=latest + 1) if latest > before.revision else after


def _rendered(
    before: Snapshot, attempt: Callable[[dict[str, str]], tuple[Snapshot, list[Problem]]], plans: Plans
) -> tuple[Snapshot, list[Problem]]:
    """Return the state in which every network of the plan can be rendered on every node.

    `attempt` admits without the networks that it is given, each by the key of its object with the reason.
    """
    known = plans.of(before) if before.revision else None
    unrendered: dict[str, str] = {}
    while True:
        after, problems = attempt(unrendered)
        if problems:
            return after, problems
        plan = plans.of(after)
        found = unrenderable(plan, _to_rehearse(known, plan))
        if DEFAULT_NETWORK in found:
            raise UserError(f"the default network: {found[DEFAULT_NETWORK]}; nothing was written. Please report this")
        if not found:
            return after, problems
        unrendered |= {plan["networks"][name]["object"]: reason for name, reason in found.items()}


def _to_rehearse(known: dict | None, plan: dict) -> dict[str, set[str] | None]:
    """Return the networks of which a host may render something else than for the plan that is `known`.

    With the nodes where workloads differ, None for all, as `unrenderable` takes them. What is of no network is rendered
    with the default network, and so are EgressIPs.
    """
    changed = changed_places(known, plan)
    if known is None:
        return changed
    for part in _BY_NETWORK:
        differing = differing_names(known.get(part, {}), plan.get(part, {}))
        changed |= dict.fromkeys(differing & plan["networks"].keys())
    for name, nodes in _leaving_otherwise(known, plan).items():
        if name in plan["networks"]:
            own = changed.get(name, set())
            changed[name] = None if own is None or nodes is None else own | nodes
    others = (known.keys() | plan.keys()) - {*_BY_NETWORK, "networks", "workloads", "digest", "revision"}
    if any(known.get(part) != plan.get(part) for part in others):
        changed[DEFAULT_NETWORK] = None
    return changed


def _leaving_otherwise(known: dict, plan: dict) -> dict[str, set[str] | None]:
    """Return by network the nodes of workloads that an EgressIP has in one plan only; None where addresses differ."""
    found: dict[str, set[str] | None] = {}
    for name in differing_names(known["egress_ips"], plan["egress_ips"]):
        old, new = (one["egress_ips"].get(name, {}) for one in (known, plan))
        selected = [one.get("workloads", {}) for one in (old, new)]
        same = {**old, "workloads": ()} == {**new, "workloads": ()}
        for network in differing_names(*selected) if same else selected[0].keys() | selected[1].keys():
            keys = set(selected[0].get(network, ())).symmetric_difference(selected[1].get(network, ()))
            workloads = [plan["workloads"][key] for key in keys if key in plan["workloads"]]
            nodes = found.setdefault(network, set())
            found[network] = nodes.union(*map(hosting_nodes, workloads)) if same and nodes is not None else None
    return found


def state_changes(before: Snapshot, after: Snapshot) -> tuple[Change, ...]:
    """Return what differs between two states as changes, for diff and report."""
    changes = []
    for entry in differences(before, after):
        old, new = (
            {"value": side} if isinstance(side, str) else side or {} for side in (entry["before"], entry["after"])
        )
        action = "update" if entry["before"] and entry["after"] else "create" if entry["after"] else "delete"
        changes.append(Change("state", action, entry["kind"], entry["name"], "", old, new))
    return tuple(changes)
