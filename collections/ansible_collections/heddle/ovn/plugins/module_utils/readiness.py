# SPDX-License-Identifier: Apache-2.0
"""Which hosts have which network, as they told after a run, into the status of the networks."""

from __future__ import annotations

import dataclasses

from .decide import now
from .model import Problem
from .plan import build_plan
from .runner import Failure
from .state.apply_manifests import Overtaken, store
from .state.conditions import READY, ready_on, with_conditions
from .state.snapshot import Snapshot


def host_state(digest: str, report: dict) -> str:
    """Return in a word or two how a host stands to the plan with this digest.

    `report` is what the module `audit` found there, or nothing for a host that did not answer or did not get so far.
    """
    if not report or report.get("unreachable"):
        return "no answer"
    if report.get("failed") or report.get("problems"):
        return "not installed"
    if report["digest"] != digest:
        return "behind"
    return "drifted" if report["drift"] else "ready"


def network_states(name: str, described: dict, digest: str, reports: dict[str, dict]) -> dict[str, str]:
    """Return by host how it stands to one network: drift of others does not count, of what is shared it does.

    `described` is the network in the plan.
    """
    states = {}
    for host, report in sorted(reports.items()):
        if host not in described.get("host_subnets", reports):
            states[host] = "has no subnet of it"
            continue
        state = host_state(digest, report)
        if state == "drifted" and not any(entry["network"] in ("", name) for entry in report["drift"]):
            state = "ready"
        states[host] = state
    return states


def with_readiness(before: Snapshot, reports: dict[str, dict], moment: str) -> Snapshot:
    """Return the snapshot with the condition NetworkReady of every network that is carried out."""
    after = dataclasses.replace(before, objects=dict(before.objects))
    plan = build_plan(before) if before.revision else {"networks": {}, "digest": ""}
    for name, described in plan["networks"].items():
        if not described["object"]:
            continue
        entry = before.objects[described["object"]]
        states = network_states(name, described, plan["digest"], reports)
        others = [
            {name: value for name, value in one.items() if name != "lastTransitionTime"}
            for one in entry.status["conditions"]
            if one["type"] != READY
        ]
        told = with_conditions(entry, [*others, ready_on(states)], moment)
        after.objects[entry.key] = told.with_status(hosts=states)
    return after


def record(client, reports: dict[str, dict], *, write: bool) -> tuple[Snapshot, Snapshot]:
    """Bring the stored readiness to the reports; returns the state before and after."""
    moment = now()

    def decide(before: Snapshot) -> tuple[Snapshot, list[Problem]]:
        return with_readiness(before, reports, moment), []

    try:
        return store(client, decide, write=write)
    except Overtaken as error:
        raise Failure(str(error)) from error
