# SPDX-License-Identifier: Apache-2.0
"""Applies a node's part of the plan to OVN's databases: remote chassis and the logical topology of its zone."""

from __future__ import annotations

from ..common.change import Outcome
from ..ovsdb.additional_chassis import reconcile_additional_chassis
from ..ovsdb.empty_database import planned
from ..ovsdb.reconcile import reconcile
from ..ovsdb.values import Scope
from ..ovsdb.wait import caught_up, synchronise
from ..render import northbound, render_additional_chassis, render_northbound, render_southbound, southbound
from ..types.ovsdb_row import Row
from .module_runner import NORTHBOUND, SOUTHBOUND, connected, known_node


def apply_rows(client, database: str, rows: list[Row], owner: str, tables: tuple[str, ...], *, write: bool) -> Outcome:
    """Reconcile rows with a database; without a database every row counts as missing."""
    if client is None:
        return planned(database, rows)
    return reconcile(client, database, rows, owner=owner, scope=Scope(tables=frozenset(tables)), write=write)


def apply_topology(module, plan: dict) -> Outcome:
    """Apply remote chassis first: northd makes a port remote only if its chassis is remote (OVN, `northd.c`)."""
    node = known_node(plan, module.params["node"])
    owner, write = f"{plan['deployment']}:topology", not module.check_mode
    timeout = module.params["wait_timeout"]
    with connected(module, SOUTHBOUND) as client:
        rows = render_southbound(plan, node)
        outcome = apply_rows(client, "OVN_Southbound", rows, owner, southbound.TABLES, write=write)
    with connected(module, NORTHBOUND) as client:
        rows = render_northbound(plan, node)
        outcome += apply_rows(client, "OVN_Northbound", rows, owner, northbound.TABLES, write=write)
        if write and timeout and (outcome.changed or not caught_up(client)):
            synchronise(client, timeout)
    # Last, because removing an additional chassis must wait until packets go to the primary one.
    with connected(module, SOUTHBOUND) as client:
        return outcome + reconcile_additional_chassis(client, render_additional_chassis(plan, node), write=write)
