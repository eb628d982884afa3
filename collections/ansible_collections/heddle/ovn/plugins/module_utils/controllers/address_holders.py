# SPDX-License-Identifier: Apache-2.0
"""Who holds which address, and all that follows from it in the state: one function, for every step that may change it.

Holders of the addresses of EgressIPs and load balancers, and with these the hosts of EgressServices, are pure functions
of the objects, of the hosts that may hold addresses, and of the holders before (`egress/egress_assignment.py`,
`allocation/address_assignment.py`). The nodes of networks follow from them, and the status of these three kinds.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ..store.snapshot import Snapshot
from .egress.egress_ip_status import update_egress_ips
from .egress.egress_ips import assign_egress_ips
from .egress.egress_services import update_egress_services
from .network.network_nodes import select_nodes
from .services.load_balancers import assign_announcers
from .services.service_status import update_services
from .unfinished_moves import note_moves


def update_holders(
    before: Snapshot,
    after: Snapshot,
    now: str,
    live: Collection[str] | None = None,
    kept: Mapping[str, str] | None = None,
) -> None:
    """Store in `after`, whose allocations are complete, who holds each address, and the status that follows from it.

    `live` are the hosts that may hold addresses, None for all of the inventory. `kept` are addresses that have not left
    their hosts, and that no other host may get until they have. A step whose hosts do not take the steps of a move of
    addresses (docs/egress.md, "Moving") uses `update_users` instead.
    """
    assignment, selection = assign_egress_ips(after, live, kept or {})
    assign_announcers(after, live, kept or {})
    select_nodes(before, after, now, selection)
    update_services(after, now)
    update_egress_ips(after, assignment, selection, now)
    update_egress_services(after, now)
    note_moves(before, after)


def update_users(before: Snapshot, after: Snapshot, now: str) -> None:
    """Store in `after` what follows from workloads that are on other nodes: addresses stay at their holders."""
    select_nodes(before, after, now)
    update_services(after, now)
    update_egress_services(after, now)
