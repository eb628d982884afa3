# SPDX-License-Identifier: Apache-2.0
"""Applies the whole of a node's part of the plan, in order of dependency."""

from __future__ import annotations

import os
from collections.abc import Collection

from ..common.change import Outcome
from ..common.naming import DEFAULT_NETWORK
from ..render.common.egress_services import translates_for_services
from ..render.common.entrances import held_addresses, without_addresses
from .context import NodeContext
from .host_firewall import apply_firewall
from .module_runner import KNOWN_ERRORS, UserError, known_node, read_plan_file, refusal
from .node_gateway import apply_gateway
from .plan_file import keep_plan
from .topology import apply_topology
from .workloads import apply_workloads

PARTS = {"topology": apply_topology, "gateway": apply_gateway, "workloads": apply_workloads}


def apply_zone(context: NodeContext, plan: dict, parts: Collection[str]) -> Outcome:
    """Apply the plan to the host; return all changes. The outcome's `refused` has the networks that the host rejects.

    `parts` are keys of PARTS; they are applied in its order. A network that one part rejects is left out by those after
    it. Raises one of KNOWN_ERRORS when a part fails as a whole, with the networks rejected before in its text.

    The plan is stored first: after an interruption, `heddle-host` continues with it.
    """
    known_node(plan, context.node)
    before = _translating(context, plan) if {"topology", "gateway"} <= {*parts} else None
    outcome = keep_plan(plan, context.plan_path, write=context.write)
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


def _translating(context: NodeContext, plan: dict) -> dict | None:
    """Return the stored plan where this host's kernel translates for EgressServices by the given one, else None."""
    if not context.write or not translates_for_services(plan, context.node):
        return None
    try:
        return read_plan_file(context.plan_path)
    except UserError:
        # What is wrong with it is for `keep_plan`; a host without a plan has no management port either.
        return None


def withdraw_addresses(context: NodeContext, plan: dict) -> Outcome:
    """Give up the egress addresses that this host has by its stored plan and no longer has by the given one.

    All hosts do this before any applies the new plan, so that no address is on two hosts. What the host has stored
    afterwards is its former plan without them.
    """
    known_node(plan, context.node)
    if not os.path.exists(context.plan_path):
        return Outcome()
    stored = read_plan_file(context.plan_path)
    given_up = set(held_addresses(stored, context.node)) - set(held_addresses(plan, context.node))
    if not given_up or context.node not in stored["nodes"]:
        return Outcome()
    # On the default network the gateway router answers for them too, and policies lead to this host.
    routed = any(
        DEFAULT_NETWORK in entry["workloads"] and given_up & {one["address"] for one in entry["addresses"]}
        for entry in stored["egress_ips"].values()
    ) or any(
        given_up.intersection(entry["addresses"])
        for entry in stored.get("egress_services", {}).get(DEFAULT_NETWORK, {}).values()
    )
    parts = ("topology", "gateway") if routed else ("gateway",)
    return apply_zone(context, without_addresses(stored, given_up), parts)
