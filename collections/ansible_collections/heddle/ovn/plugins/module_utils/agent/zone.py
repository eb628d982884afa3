# SPDX-License-Identifier: Apache-2.0
"""Applies the whole of a node's part of the plan, in order of dependency."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import replace

from ..common.change import Outcome
from ..render.common.egress_services import translates_for_services
from ..render.common.handover import pending_addresses
from .context import NodeContext
from .host_firewall import apply_firewall
from .module_runner import KNOWN_ERRORS, UserError, known_node, read_plan_file, refusal
from .node_gateway import add_egress_flows, apply_gateway, claim_addresses
from .plan_file import keep_plan
from .topology import apply_topology
from .workloads import apply_workloads

PARTS = {"topology": apply_topology, "gateway": apply_gateway, "workloads": apply_workloads}


def apply_zone(context: NodeContext, plan: dict, parts: Collection[str]) -> Outcome:
    """Apply the plan to the host; return all changes. The outcome's `refused` has the networks that the host rejects.

    `parts` are keys of PARTS; they are applied in its order. A network that one part rejects is left out by those after
    it. Raises one of KNOWN_ERRORS when a part fails as a whole, with the networks rejected before in its text.

    The plan is stored first: after an interruption, `heddle-host` continues with it. Then come the addresses that other
    hosts have given up for this one, as connections to them wait, and the flows without which packets would leave with
    the address of the host instead of an egress address.
    """
    known_node(plan, context.node)
    if context.write:
        context = replace(context, former=stored_plan(context))
    before = context.former if {"topology", "gateway"} <= {*parts} and _translates(context, plan) else None
    pending = pending_addresses(context.former, plan, context.node) if context.former else []
    outcome = keep_plan(plan, context.plan_path, write=context.write, kept=context.former)
    if context.former and "gateway" in parts:
        outcome += claim_addresses(context, context.former, plan, pending)
        outcome += add_egress_flows(context, context.former, plan)
    if before:
        # Without its translation the kernel would forward what router policies lead to it with addresses of workloads.
        firewall = apply_firewall(plan, context.node, write=True, before=before)
        # Its other parts come from the gateway's part as well.
        outcome += Outcome(firewall.changes, notes=firewall.notes)
    for name, apply in PARTS.items():
        if name in parts:
            refused = frozenset(network for network, _reason in outcome.refused)
            try:
                outcome += apply(context, plan, refused) if name == "workloads" else apply(context, plan)
            except KNOWN_ERRORS as error:
                if not outcome.refused:
                    raise
                raise UserError(f"{refusal(outcome)}\n{error}") from error
    return outcome


def _translates(context: NodeContext, plan: dict) -> bool:
    """Return whether the kernel translates for EgressServices by the plan, and a former plan is there."""
    return bool(context.former) and translates_for_services(plan, context.node)


def stored_plan(context: NodeContext) -> dict:
    """Return the plan that the host has, {} where it has none or one that this program does not know.

    What is wrong with its file is for `keep_plan`.
    """
    try:
        return read_plan_file(context.plan_path) if os.path.exists(context.plan_path) else {}
    except UserError:
        return {}
