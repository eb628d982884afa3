# SPDX-License-Identifier: Apache-2.0
"""Result of the module `resource`: what admission changed, and the plan."""

from __future__ import annotations

from ..agent.module_runner import Request
from ..agent.state_connection import state_database
from ..common.change import Outcome
from ..controllers.unfinished_moves import unfinished_moves
from ..plan.address_holders import moved_addresses
from ..render.egress.firewall import has_dns_names
from ..render.host.mesh import mesh_networks
from ..render.services.readiness import has_probes
from .admission_service import next_state, state_changes
from .limited_moves import departed_lines, hosts_left_out
from .plans import Plans
from .readiness import READY, host_state, pending
from .readiness_record import readiness_result
from .status_view import changes_text, objects_text


def _further(plan: dict) -> set[str]:
    """Return what the plan uses besides workloads that needs packages or daemons of its own."""
    return (
        ({"coil"} & plan.keys())
        | ({"mesh"} if mesh_networks(plan) else set())
        | ({"probes"} if has_probes(plan) else set())
        | ({"dns_names"} if has_dns_names(plan) else set())
        | ({"underlay"} if plan.get("underlay_probes") else set())
    )


def resource_result(request: Request) -> dict:
    """Admit the manifests, store the state, and return the plan; record readiness where no host has to apply it."""
    write, plans, reports = not request.check_mode, Plans(), request.params["hosts"]
    described = {name: dict(node or {}) for name, node in request.params["nodes"].items()}
    reported = {name: node.pop("held_addresses", ()) for name, node in described.items()}
    kept = {name: node.pop("kept_plan", None) for name, node in described.items()}
    with state_database(request, write=write) as client:
        before, after = next_state(
            {**request.params, "nodes": described}, client, write=write, plans=plans, kept=kept,
            left_out=hosts_left_out(reports), reported=reported,
        )  # fmt: skip
    outcome, plan = Outcome(state_changes(before, after)), plans.of(after)
    moved = moved_addresses(plans.of(before), plan, reported, unfinished_moves(after)) if before.revision else {}
    departed = departed_lines(plans.of(before), plan) if before.revision else []
    digests = plans.of_hosts(after).digests
    waiting = pending(digests, reports, moved)
    are_ready = any(host_state(digest, reports.get(name, {})) == READY for name, digest in digests.items())
    applied = write and not waiting and are_ready
    recorded = readiness_result(request, plans, departed) if applied else {}
    return {
        **({"recorded": recorded} if applied else {}),
        # A later revision alone is written, too.
        "changed": outcome.changed or after.revision > before.revision or recorded.get("changed", False),
        **({"diff": [*outcome.diff(), *recorded.get("diff", [])]} if request.diff else {}),
        "revision": after.revision,
        **plans.documents(after, waiting, moved=bool(moved)),
        "digest": plan["digest"],
        "moved_addresses": moved,
        "pending": waiting,
        # What hosts need further packages or daemons for.
        "kinds": sorted({workload["kind"] for workload in plan["workloads"].values()} | _further(plan)),
        "changes": changes_text(before, after),
        "table": objects_text(after, departed),
        "attention": departed,
        "differences": [f"{change.kind} {change.name}" for change in outcome.changes],
    }
