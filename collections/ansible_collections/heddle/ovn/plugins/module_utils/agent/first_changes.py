# SPDX-License-Identifier: Apache-2.0
"""Writes what differs between two plans in endpoints, members and names, before the host is compared with the new one.

Packets follow a changed endpoint after ovn-northd and ovn-controller have translated it, which they do meanwhile.
Nothing relies on this step: the comparison of all rows follows in the same run, finds what it left out or could not
write, and whatever else differs. So it does not matter what the host really has, or where a former run was cut off.
"""

from __future__ import annotations

from ..common.change import Outcome
from ..common.databases import OVN_NORTHBOUND
from ..ovsdb.narrowing import narrowed
from ..ovsdb.reconcile import reconcile
from ..ovsdb.values import Scope
from ..ovsdb.wait import Announcement
from ..render import northbound, render_northbound
from ..render.common.changed_networks import changed_networks
from ..types.ovsdb_row import Row
from .context import NodeContext
from .module_runner import KNOWN_ERRORS, connected

# A change of more networks is no change of a few endpoints; comparing all rows takes about as long then.
_MOST_NETWORKS = 16


def write_first_changes(
    context: NodeContext, plan: dict, remote: str, owner: str, closing: Announcement
) -> Outcome | None:
    """Write them in one transaction; return the changes, None where something is left to the comparison.

    `remote` is the Northbound, `closing` as for `reconcile`.
    """
    former = context.former
    if not context.write or not former:
        return None
    if former["digest"] == plan["digest"]:
        return Outcome()
    found = _differing(former, plan, context.node)
    if found is None:
        return None
    rows, scope = found
    if not scope.networks:
        return Outcome()
    try:
        with connected(remote, write=True) as client:
            outcome = reconcile(client, OVN_NORTHBOUND, rows, owner=owner, scope=scope, write=True, closing=closing)
    except KNOWN_ERRORS:
        # The comparison fails for the same reason, with its message, or finds that the host is not as it was.
        return None
    return Outcome(outcome.changes)


def _differing(former: dict, plan: dict, node: str) -> tuple[list[Row], Scope] | None:
    """Return the rows that differ, and the scope that is compared; None where more than these rows may differ."""
    # The digest of a plan of thousands of endpoints takes longer than all else here, so an edited file is not found
    # by it, but by what its content raises.
    try:
        networks = changed_networks(former, plan, node)
        if networks is None or len(networks) > _MOST_NETWORKS:
            return None
        before = render_northbound(former, node, networks) if networks else []
    except (KeyError, IndexError, TypeError, ValueError, AttributeError):
        return None
    if not networks:
        return [], Scope(networks=frozenset())
    after = render_northbound(plan, node, networks)
    # What is common to all networks is written before them, by the comparison.
    if [row for row in before if not row.network] != [row for row in after if not row.network]:
        return None
    return narrowed(before, after, northbound.TABLES)
