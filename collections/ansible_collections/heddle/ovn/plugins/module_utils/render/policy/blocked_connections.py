# SPDX-License-Identifier: Apache-2.0
"""Connections that were permitted when they began stay blocked once a rule drops them.

OVN marks such a connection as blocked with the first packet that it drops. Its logical flow for marked connections that
no rule matches takes the mark away and admits the packet. That flow is in every tier, so a packet of a blocked
connection meets it in tier 0, before the rules of higher tiers: every second packet passed (ovn-northd 25.03,
`northd.c`, `build_acls`). Rules that leave marked connections to the next tier precede it.
"""

from __future__ import annotations

from ...types.ovsdb_row import Row
from ..common.node_network import NodeNetwork
from .policy_rows import EGRESS, INGRESS, acl, on_switch

_BLOCKED = "ip && ct.est && ct_mark.blocked == 1"


def render_blocked_connections(view: NodeNetwork, rules: list[Row]) -> list[Row]:
    """Return the ACLs of a network's switch that `rules` need: for each direction those of the tiers before the last.

    In the last tier the mark is to be taken away when no rule drops the packet any more.
    """
    last = {INGRESS: 0, EGRESS: 0}
    for row in rules:
        if row.table == "ACL":
            direction = INGRESS if row.columns["direction"] == "to-lport" else EGRESS
            last[direction] = max(last[direction], row.columns["tier"])
    return [
        acl(
            view, on_switch(view.workload_switch), direction, 0, _BLOCKED, "pass", owner_type="BlockedConnections",
            keys={"name": "blocked", "direction": direction, "tier": str(tier)}, tier=tier,
        )
        for direction, number in last.items()
        for tier in range(number)
    ]  # fmt: skip
