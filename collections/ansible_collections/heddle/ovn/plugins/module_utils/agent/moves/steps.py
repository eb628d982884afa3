# SPDX-License-Identifier: Apache-2.0
"""The steps in which addresses of EgressIPs and load balancers move to other hosts (`render/common/handover.py`).

No host takes a step before all others have taken the one before, or have sent notices that they have done what this one
waits for (`notice_process.py`). The second and third are what connections wait for, so they write only what the move is
about, without comparing the host; applying the plan, which follows, does that.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Mapping
from dataclasses import replace

from ...common.change import Outcome
from ...common.naming import DEFAULT_NETWORK
from ...common.polling import attempts
from ...netlink.kernel import NetlinkFailure
from ...render.common.egress_ips import held_nics
from ...render.common.handover import (
    announced_addresses,
    claimed_plan,
    is_prepared,
    new_hosts,
    pending_addresses,
    prepared_plan,
    released_plan,
    rerouting_plan,
    service_addresses,
)
from ...render.egress.move_notices import CLAIMING, RELEASED, RELEASING, Notice
from .. import node_gateway, topology
from ..context import NodeContext
from ..module_runner import KNOWN_ERRORS, known_node
from ..plan_file import keep_plan, refuse_older
from ..zone import PARTS, apply_zone, stored_plan
from .notices import NoticeSocket, send_notice
from .outcome import take_outcome

# Seconds that a former host waits for notices of new hosts that they have prepared, and for OVN to lead workloads
# there. The addresses are where they were meanwhile.
_ANSWER_SECONDS, _OVN_SECONDS = 2.0, 2.0


def prepare_addresses(context: NodeContext, plan: dict, moved: Mapping[str, str]) -> Outcome:
    """Apply the plan but for the addresses that move, whose former hosts `moved` has; those do nothing yet.

    All that a host needs for the addresses that it gets is in place then, and workloads still leave by the former ones.
    """
    known_node(plan, context.node)
    prepared = prepared_plan(plan, context.node, moved)
    if prepared is None or any(moved.get(one) == context.node for one in held_nics(stored_plan(context), context.node)):
        return Outcome()
    return apply_zone(context, prepared, PARTS)


def release_addresses(context: NodeContext, plan: dict, moved: Mapping[str, str]) -> Outcome:
    """Give up the addresses of the stored plan that this host has and another one gets; others do nothing.

    Workloads are led to the new hosts before that, if these send notices that they have prepared, or else by the next
    step. Only these rows, flows that drop and the addresses themselves are written.
    """
    known_node(plan, context.node)
    stored = _stored_plan(context, plan)
    released = released_plan(stored, plan, context.node, moved) if stored else None
    if released is None or released["digest"] == stored["digest"]:
        return Outcome()
    outcome, former = Outcome(), None
    if is_prepared(stored, plan, context.node, moved):
        former = prepared_plan(plan, context.node, moved)
    elif not moved.keys().isdisjoint(service_addresses(released)):
        # Endpoints of a Service may go with its address, so it has not prepared.
        former = stored
    leads = _are_ready(context, plan, moved) and former
    try:
        if leads:
            outcome += _lead_away(context, former, released)
        outcome += _give_up(context, stored, released)
    except (*KNOWN_ERRORS, NetlinkFailure, OSError):
        if leads:
            _lead_back(context, stored, former, released)
        raise
    if outcome.refused and leads:
        _lead_back(context, stored, former, released)
    if not outcome.refused:
        send_notice(plan, Notice(RELEASED, context.node))
    return outcome


def _stored_plan(context: NodeContext, plan: dict) -> dict | None:
    """Return the plan that this host has; UserError where it is later than that of the move, which is void then."""
    stored = stored_plan(context)
    refuse_older(plan, stored or {}, context.plan_path)
    return stored


def _are_ready(context: NodeContext, plan: dict, moved: Mapping[str, str]) -> bool:
    """Notify others that addresses are about to be given up; return whether all new hosts reply that they prepared."""
    new, ready, releasing = new_hosts(plan, moved), set(), Notice(RELEASING, context.node)
    with contextlib.suppress(OSError), NoticeSocket(plan, context.node, moved) as notices:
        send_notice(plan, releasing)
        # A host that is slow takes in once what has arrived, whatever the time is then.
        left, until = _ANSWER_SECONDS, time.monotonic() + _ANSWER_SECONDS
        while not new <= ready and left > 0:
            ready |= {one.node for one in notices.read(left) if one.kind == CLAIMING}
            left = until - time.monotonic()
    return new <= ready


def _lead_away(context: NodeContext, former: dict, released: dict) -> Outcome:
    """Lead workloads of this host to the new hosts, as all others do now, and wait until OVN does so.

    That takes it longer than all else. So the addresses are given up when workloads are about to need the new hosts,
    which drop until then what arrives.
    """
    written = topology.apply_first_changes(replace(context, former=former), released) or Outcome()
    for _attempt in attempts(_OVN_SECONDS if written.changed else 0, longest=0.05):
        if topology.is_programmed(released, context.node):
            break
    return written


def _lead_back(context: NodeContext, stored: dict, former: dict, released: dict) -> None:
    """Undo `_lead_away` on a host that could not give its addresses up, so that it keeps them.

    The new hosts get a plan without these addresses next, and would send with their own what is led to them. A failure
    here is left to the plan that this host applies next.
    """
    with contextlib.suppress(*KNOWN_ERRORS):
        topology.apply_first_changes(replace(context, former=released), former)
        keep_plan(stored, context.plan_path, write=context.write)


def _give_up(context: NodeContext, stored: dict, released: dict) -> Outcome:
    if service_addresses(stored) != service_addresses(released):
        # An EgressService that ends, or that a routing table of its own leads, goes with all that it has on this host.
        parts = ("topology", "gateway") if DEFAULT_NETWORK in stored["egress_services"] else ("gateway",)
        return apply_zone(context, released, parts)
    outcome = keep_plan(released, context.plan_path, write=context.write)
    if announced_addresses(stored, context.node) != announced_addresses(released, context.node):
        outcome += node_gateway.release_addresses(context, stored, released)
    if context.write:
        node_gateway.note_applied(released)
    return outcome


def claim_addresses(context: NodeContext, plan: dict, moved: Mapping[str, str]) -> Outcome:
    """Take the addresses that other hosts have given up for this one, and lead workloads to the new hosts.

    A former host goes on dropping what others still send to it, until all hosts have taken this step. A host that could
    not prepare applies the plan where egress addresses move.
    """
    known_node(plan, context.node)
    outcome = take_addresses(context, plan, moved)
    if outcome is None:
        rerouting = rerouting_plan(plan, context.node, moved)
        return apply_zone(context, rerouting, PARTS) if rerouting else Outcome()
    if not context.write:
        return outcome
    outcome += take_outcome()
    written = lead_workloads(context, plan, moved)
    claimed = stored_plan(context)
    if written is None:
        return outcome + topology.apply_topology(context, claimed)
    topology.await_programmed(context, claimed)
    return outcome + written


def take_addresses(
    context: NodeContext, plan: dict, moved: Mapping[str, str], released: Collection[str] | None = None
) -> Outcome | None:
    """Set and announce the addresses that former hosts have given up, `released` or all; None without preparation.

    The plan with them is stored.
    """
    stored = _stored_plan(context, plan)
    claimed = claimed_plan(stored, plan, context.node, moved, released) if stored else None
    if claimed is None:
        return None
    pending = pending_addresses(stored, claimed, context.node)
    # Connections wait for this, so even the file of the plan comes later; a later run takes them in any case.
    outcome = node_gateway.claim_addresses(context, stored, claimed, pending)
    outcome += keep_plan(claimed, context.plan_path, write=context.write)
    if context.write:
        node_gateway.note_applied(claimed)
    return outcome


def lead_workloads(context: NodeContext, plan: dict, moved: Mapping[str, str]) -> Outcome | None:
    """Write the rows that lead workloads to the new hosts, and do not wait for OVN.

    None where the host has not prepared or has not given up its own addresses, and where only a comparison of all rows
    writes these.
    """
    stored = _stored_plan(context, plan)
    claimed = claimed_plan(stored, plan, context.node, moved) if stored else None
    if claimed is None:
        return None
    prepared = prepared_plan(plan, context.node, moved)
    return topology.apply_first_changes(replace(context, former=prepared), claimed)
