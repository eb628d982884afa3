# SPDX-License-Identifier: Apache-2.0
"""Applies the whole of a node's part of the plan, in order of dependency."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import replace

from ..common.change import Outcome
from ..common.naming import DEFAULT_NETWORK
from ..render.common.egress_services import translates_for_services
from ..render.common.handover import pending_addresses, prepared_plan, released_plan, rerouting_plan
from . import node_gateway
from .context import NodeContext
from .host_firewall import apply_firewall
from .module_runner import KNOWN_ERRORS, UserError, known_node, read_plan_file, refusal
from .node_gateway import apply_gateway, claim_addresses
from .plan_file import keep_plan
from .topology import apply_topology
from .workloads import apply_workloads

PARTS = {"topology": apply_topology, "gateway": apply_gateway, "workloads": apply_workloads}


def apply_zone(context: NodeContext, plan: dict, parts: Collection[str]) -> Outcome:
    """Apply the plan to the host; return all changes. The outcome's `refused` has the networks that the host rejects.

    `parts` are keys of PARTS; they are applied in its order. A network that one part rejects is left out by those after
    it. Raises one of KNOWN_ERRORS when a part fails as a whole, with the networks rejected before in its text.

    The plan is stored first: after an interruption, `heddle-host` continues with it. Then come the addresses that other
    hosts have given up for this one, as connections to them wait.
    """
    known_node(plan, context.node)
    if context.write:
        context = replace(context, former=_stored(context))
    before = context.former if {"topology", "gateway"} <= {*parts} and _translates(context, plan) else None
    pending = pending_addresses(context.former, plan, context.node) if context.former else []
    outcome = keep_plan(plan, context.plan_path, write=context.write)
    outcome += claim_addresses(context, plan, pending)
    if before:
        # Without its translation the kernel would forward what router policies lead to it with addresses of workloads.
        outcome += Outcome(apply_firewall(plan, context.node, write=True, before=before).changes)
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


def prepare_addresses(context: NodeContext, plan: dict, moved: Mapping[str, str]) -> Outcome:
    """Apply the plan but for the addresses that move, whose former hosts `moved` has; those do nothing yet.

    All that a host needs for the addresses that it gets is in place then, and workloads still leave by the former ones.
    """
    known_node(plan, context.node)
    prepared = prepared_plan(plan, context.node, moved)
    return apply_zone(context, prepared, PARTS) if prepared else Outcome()


def release_addresses(context: NodeContext, plan: dict, moved: Mapping[str, str]) -> Outcome:
    """Give up the addresses of the stored plan that this host has and another one gets.

    All hosts do this before any applies the new plan, so that no address is on two hosts.
    """
    known_node(plan, context.node)
    stored = _stored(context)
    released = released_plan(stored, plan, context.node, moved) if stored else None
    if released is None:
        return Outcome()
    # An EgressService that leaves with one of the addresses goes with it, and all that it has on this host.
    services = stored.get("egress_services", {}) != released.get("egress_services", {})
    if services:
        parts = ("topology", "gateway") if DEFAULT_NETWORK in stored["egress_services"] else ("gateway",)
        return apply_zone(context, released, parts)
    outcome = keep_plan(released, context.plan_path, write=context.write)
    # On the default network the gateway router answers for them too.
    if any("leaving" in entry and DEFAULT_NETWORK in entry["workloads"] for entry in released["egress_ips"].values()):
        outcome += apply_topology(context, released)
    return outcome + node_gateway.release_addresses(context, released)


def reroute_addresses(context: NodeContext, plan: dict, moved: Mapping[str, str]) -> Outcome:
    """Apply the plan where egress addresses move; a former host goes on dropping what others still send to it.

    All hosts do this before any of them applies the plan as it is.
    """
    known_node(plan, context.node)
    rerouting = rerouting_plan(plan, context.node, moved)
    return apply_zone(context, rerouting, PARTS) if rerouting else Outcome()


def _stored(context: NodeContext) -> dict:
    """Return the plan that the host has, {} where it has none or one that this program does not know.

    What is wrong with its file is for `keep_plan`.
    """
    try:
        return read_plan_file(context.plan_path) if os.path.exists(context.plan_path) else {}
    except UserError:
        return {}
