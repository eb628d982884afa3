# SPDX-License-Identifier: Apache-2.0
"""Result of the module `chassis_info`: how the host is connected and, if wanted, whether it still is as its plan."""

from __future__ import annotations

from ...agent import follow_ups, northd_recompute
from ...agent.chassis.chassis_calls import described
from ...agent.comparison_record import ComparisonRecord, NotRecorded
from ...agent.context import NodeContext, only_writer
from ...agent.health.probes import first_readiness
from ...agent.module_options import PLAN_FILE
from ...agent.module_runner import KNOWN_ERRORS, Request, read_plan_file
from ...agent.node_gateway import applied_digest
from ...agent.plan_file import is_whole
from ...agent.topology import is_programmed
from ...agent.workloads import are_up
from ...agent.zone import PARTS
from ...netlink import kernel
from ...render.services.readiness import has_probes
from .compare import Comparison
from .zone_result import missing_services


def chassis_info_result(request: Request) -> dict:
    """Return what the host reports, how it differs from the options and, with the option `compared`, from its plan.

    The latter only where a record of the last comparison makes it short, and nothing differs: everything else is for
    the module `zone`, once there is a new plan.
    """
    found = described(request)
    if not request.params["compared"] or request.check_mode or request.diff or found["differences"]:
        return found
    return {**found, **as_planned(request.params["name"], request.sources)}


def as_planned(node: str, sources: str, path: str = PLAN_FILE) -> dict:
    """Return `audit` and `readiness` as the module `zone` does if it were to change nothing; {} where it might.

    The host's chassis was compared before. `sources` identify the program, as in ComparisonRecord.
    """
    context = NodeContext(node, path, write=False, record=ComparisonRecord(sources, only=True))
    try:
        plan = read_plan_file(path)
        if not is_whole(plan) or node not in plan["nodes"]:
            return {}
        with only_writer(write=True):
            if not _is_applied(context, plan):
                return {}
        found = Comparison(plan, node).summary(written=frozenset(), chassis=False)
    except (NotRecorded, *KNOWN_ERRORS, kernel.NetlinkFailure, OSError):
        return {}
    if found["drift"] or found["problems"] or found["stopped"] or missing_services(plan):
        return {}
    return {"audit": found, **({"readiness": first_readiness(plan, node)} if has_probes(plan) else {})}


def _is_applied(context: NodeContext, plan: dict) -> bool:
    """Whether to apply the plan again would change and report nothing. Raises NotRecorded, or one of KNOWN_ERRORS."""
    if applied_digest() != plan["digest"] or northd_recompute.is_pending() or follow_ups.are_pending():
        return False
    for apply in PARTS.values():
        outcome = apply(context, plan)
        if outcome.changed or outcome.refused or outcome.notes:
            return False
    return is_programmed(plan, context.node) and are_up(plan, context.node)
