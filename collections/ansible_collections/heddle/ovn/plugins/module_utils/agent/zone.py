# SPDX-License-Identifier: Apache-2.0
"""Applies the whole of a node's part of the plan, in order of dependency."""

from __future__ import annotations

from ..common.change import Outcome
from .module_runner import KNOWN_ERRORS, UserError, known_node, load_plan, refusal
from .node_gateway import apply_gateway
from .plan_file import keep_plan
from .topology import apply_topology
from .workloads import apply_workloads

PARTS = {"topology": apply_topology, "gateway": apply_gateway, "workloads": apply_workloads}


def apply_zone(module) -> Outcome:
    """Apply the plan to the host; the outcome's `refused` has the networks that the host rejects.

    The plan is stored first: after an interruption, `heddle-host` continues with it.
    """
    plan = load_plan(module)
    known_node(plan, module.params["node"])
    outcome = keep_plan(plan, module.params["plan"], write=not module.check_mode)
    for name, apply in PARTS.items():
        if name in module.params["parts"]:
            refused = frozenset(network for network, _reason in outcome.refused)
            try:
                outcome += apply(module, plan, refused) if name == "workloads" else apply(module, plan)
            except KNOWN_ERRORS as error:
                if not outcome.refused:
                    raise
                raise UserError(f"{refusal(outcome)}\n{error}") from error
    return outcome
