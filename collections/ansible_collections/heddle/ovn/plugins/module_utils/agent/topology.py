# SPDX-License-Identifier: Apache-2.0
"""Applies a node's part of the plan to OVN's databases: remote chassis and the logical topology of its zone."""

from __future__ import annotations

from dataclasses import replace

from ..common.change import Outcome
from ..common.databases import (
    NORTHBOUND_REMOTE,
    OPEN_VSWITCH,
    OVN_NORTHBOUND,
    OVN_SOUTHBOUND,
    SOUTHBOUND_REMOTE,
    VSWITCH_REMOTE,
)
from ..common.plan_format import has_ovn
from ..ovsdb.additional_chassis import reconcile_additional_chassis
from ..ovsdb.empty_database import planned
from ..ovsdb.protocol.trace import replies_equal, traced
from ..ovsdb.reconcile import reconcile
from ..ovsdb.values import Scope
from ..ovsdb.wait import Announcement, caught_up, synchronise
from ..render import northbound, southbound
from ..render.host.qemu import render_additional_chassis
from ..render.host.vswitch import render_encapsulation
from ..render.northbound import render_northbound
from ..render.southbound import render_southbound
from ..types.ovsdb_row import Row
from . import northd_recompute, service_connections
from .chassis.chassis_id import SYSTEM_ID_FILE, remove_former_chassis, restore_chassis_id
from .context import NodeContext
from .first_changes import FirstChanges
from .module_runner import connected, known_node


def apply_rows(
    client, database: str, rows: list[Row], owner: str, tables: tuple[str, ...], *, write: bool, closing=None
) -> Outcome:
    """Reconcile rows with a database; without a database every row counts as missing. `closing` as in `reconcile`."""
    if client is None:
        return planned(database, rows)
    scope = Scope(tables=frozenset(tables))
    return reconcile(client, database, rows, owner=owner, scope=scope, write=write, closing=closing)


def apply_northbound(
    context: NodeContext,
    client,
    plan: dict,
    owner: str,
    closing: Announcement | None = None,
    first: FirstChanges | None = None,
) -> Outcome:
    """Reconcile the Northbound, which has most of a host's rows, unless a record shows that this changes nothing.

    `first` was written just now; after that the record of the former plan may show it.
    """
    record, node, write = context.record, context.node, context.write
    if record is None or client is None:
        rows = render_northbound(plan, node)
        return apply_rows(client, OVN_NORTHBOUND, rows, owner, northbound.TABLES, write=write, closing=closing)
    key = record.key(plan["digest"], node, owner)
    if record.holds(OVN_NORTHBOUND, key, lambda read: replies_equal(client.server, read, client.timeout)):
        return Outcome()
    if first is not None and first.complete(client):
        return Outcome()
    rows = render_northbound(plan, node)
    with traced(client) as trace:
        outcome = apply_rows(client, OVN_NORTHBOUND, rows, owner, northbound.TABLES, write=write, closing=closing)
    if not outcome.changed and not outcome.refused:
        record.keep(OVN_NORTHBOUND, key, trace.read())
    return outcome


def apply_first_changes(context: NodeContext, plan: dict) -> Outcome | None:
    """Write what differs from `context.former` in the Northbound, as far as it can be written before anything else.

    Does not wait until it is realised. None where only `apply_topology` writes all of it.
    """
    # Without what a record would make it read before.
    first = FirstChanges(replace(context, record=None), plan, _owner(plan))
    return first.write(NORTHBOUND_REMOTE, Announcement(service_connections.note))


def await_programmed(context: NodeContext, plan: dict) -> None:
    """Wait as `apply_topology` does until all of the Northbound is realised; TimedOut when that takes too long."""
    chassis = plan["nodes"][context.node]["chassis"] or ""
    with (
        connected(NORTHBOUND_REMOTE, write=True) as client,
        connected(SOUTHBOUND_REMOTE, write=True, timeout=max(60.0, context.timeout)) as southbound_client,
    ):
        if context.timeout and not caught_up(client, southbound_client, chassis):
            synchronise(client, southbound_client, context.timeout, chassis=chassis)


def _owner(plan: dict) -> str:
    return f"{plan['deployment']}:topology"


def is_programmed(plan: dict, node: str) -> bool:
    """Return whether ovn-northd and the host's ovn-controller have realised all of its Northbound."""
    if not has_ovn(plan):
        return True
    with (
        connected(NORTHBOUND_REMOTE, write=False) as client,
        connected(SOUTHBOUND_REMOTE, write=False) as southbound_client,
    ):
        chassis = plan["nodes"][node]["chassis"] or ""
        return bool(client and southbound_client) and caught_up(client, southbound_client, chassis)


def apply_topology(context: NodeContext, plan: dict) -> Outcome:
    """Apply the plan to the Southbound and Northbound databases of this node; return the changes of both.

    With `write` this waits up to `context.timeout` seconds until ovn-northd and ovn-controller have realised a change
    (ovn-architecture(7), "Information Flow"); TimedOut after that. Raises OvsdbError; UserError for an unknown node.

    What differs from `context.former` in endpoints of Services, members of policies, workloads and networks that came
    or went is written before anything else; all rows are compared afterwards, unless `context.record` shows that they
    were as the former plan.

    The host's own chassis first: without it no ovn-controller realises anything. Remote chassis next: northd makes a
    port remote only if its chassis is known to be (OVN, `northd.c`).
    """
    node = known_node(plan, context.node)
    if not has_ovn(plan):
        return Outcome()
    owner, write = _owner(plan), context.write
    own, first = plan["nodes"][node], FirstChanges(context, plan, owner)
    change = Announcement(service_connections.note)
    was_cut_off = northd_recompute.begin() if write else False
    outcome = first.write(NORTHBOUND_REMOTE, change) or Outcome()
    with connected(VSWITCH_REMOTE, write=write) as client:
        if client:
            outcome += restore_chassis_id(client, own["chassis"], SYSTEM_ID_FILE, write=write)
            rows = render_encapsulation(plan)
            outcome += apply_rows(client, OPEN_VSWITCH, rows, owner, ("Open_vSwitch",), write=write)
    with connected(SOUTHBOUND_REMOTE, write=write) as client:
        if client:
            outcome += remove_former_chassis(client, own["chassis"], own["encap_ips"], write=write)
        rows = render_southbound(plan, node)
        outcome += apply_rows(client, OVN_SOUTHBOUND, rows, owner, southbound.TABLES, write=write)
    with connected(NORTHBOUND_REMOTE, write=write) as client:
        outcome += apply_northbound(context, client, plan, owner, change, first)
        # The server is silent while it commits what northd made of many networks.
        with connected(SOUTHBOUND_REMOTE, write=write, timeout=max(60.0, context.timeout)) as southbound_client:
            chassis = own["chassis"] or ""
            try:
                if write and context.timeout:
                    if outcome.changed or not caught_up(client, southbound_client, chassis):
                        synchronise(client, southbound_client, context.timeout, change.number, chassis=chassis)
                    outcome += service_connections.end_noted()
            finally:
                # After northd has processed the change: before that it would be for nothing.
                is_needed = was_cut_off or (write and northd_recompute.is_needed(outcome, plan, context.node))
                asked = northd_recompute.recompute() if is_needed else Outcome()
            if write and not asked.notes:
                northd_recompute.end()
            outcome += asked
            # Last, because removing an additional chassis must wait until packets go to the primary one.
            additional = render_additional_chassis(plan, node)
            return outcome + reconcile_additional_chassis(southbound_client, additional, write=write)
