# SPDX-License-Identifier: Apache-2.0
"""Result of the module `zone`: the plan applied to the host and, if wanted, the host compared with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace

from ...agent.certificates import lasts
from ...agent.comparison_record import ComparisonRecord
from ...agent.context import only_writer
from ...agent.health.health import services_of
from ...agent.health.host_service import stopped_host_service
from ...agent.health.probes import first_readiness
from ...agent.module_options import ZONE_PARTS
from ...agent.module_runner import Request, load_host_plan, load_plan, node_context, refusal, result
from ...agent.moves.move_state import end_move, note_move
from ...agent.moves.notice_process import begin_watch
from ...agent.moves.steps import claim_addresses, prepare_addresses, release_addresses
from ...agent.zone import apply_zone
from ...common.naming import MESH_CERTIFICATES
from ...render.host.mesh import mesh_networks
from ...render.services.readiness import has_probes
from .compare import EVERYTHING, Comparison

# Seconds for the first step of a service that was restarted just now, as with a new program.
_PATIENCE = 10.0
_HANDOVER = {"prepare": prepare_addresses, "release": release_addresses, "claim": claim_addresses}


def zone_result(request: Request) -> dict:
    """Apply the plan; with the option `audit`, compare the host with it afterwards. With `handover`, do only that step.

    The run itself has compared all that it covers, so of that only the substrates are read again that it has written
    to. With `--diff` nothing that is recorded about an earlier comparison is used.
    """
    context = node_context(request)
    handover = request.params["handover"]
    # The steps of a move need what other hosts have.
    plan = load_plan(context) if handover else load_host_plan(context)
    if context.write and not request.diff:
        context = replace(context, record=ComparisonRecord(request.sources))
    with only_writer(write=context.write), _marked(move=bool(handover)) if context.write else nullcontext():
        if handover:
            outcome = _HANDOVER[handover](context, plan, request.params["moved"])
        else:
            outcome = apply_zone(context, plan, request.params["parts"])
    if outcome.refused:
        return {
            "failed": True,
            "msg": f"{refusal(outcome)}\nAll other networks are on {context.node} as planned.",
            "changed": outcome.changed,
            "refused": dict(outcome.refused),
            "warnings": list(outcome.notes),
        }
    found = result(outcome, diff=request.diff)
    if handover:
        if handover == "prepare" and context.write:
            begin_watch(context, plan, request.params["moved"])
        return found
    found["stopped_services"] = stopped = missing_services(plan)
    if request.params["audit"] and context.write:
        written = {change.substrate for change in outcome.changes} - {"file"}
        if set(request.params["parts"]) != set(ZONE_PARTS):
            written |= {EVERYTHING}
        found["audit"] = Comparison(plan, context.node, context.record).summary(written=written)
        if has_probes(plan) and "probes" not in stopped:
            found["readiness"] = first_readiness(plan, context.node)
    return found


@contextmanager
def _marked(*, move: bool) -> Iterator[None]:
    """Note that `heddle-host` has to wait for the next step of a move; applying the plan is the last one."""
    if move:
        note_move()
    try:
        yield
    finally:
        (note_move if move else end_move)()


def missing_services(plan: dict) -> list[str]:
    """Return which services of Heddle the host lacks, heddle-host among them, by the names of their roles.

    That of the mesh counts as lacking also when its certificate is about to expire: the role makes a new one.
    """
    missing = {unit for unit, runs in services_of(plan).items() if not runs()}
    if mesh_networks(plan) and not lasts(f"{MESH_CERTIFICATES}/cert.pem"):
        missing.add("heddle-mesh")
    missing |= stopped_host_service(_PATIENCE).keys()
    return sorted(unit.removeprefix("heddle-").replace("-", "_") for unit in missing)
