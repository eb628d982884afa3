# SPDX-License-Identifier: Apache-2.0
"""Removes ports of a userspace datapath whose links are recreated, so that they are opened again.

ovs-vswitchd receives there on a socket that is bound to the link which it opened (Open vSwitch, `netdev-linux.c`). When
another link with the same name takes its place, ovs-vswitchd goes on to send to it, and receives nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ..common.change import Change, Outcome
from ..common.databases import OPEN_VSWITCH
from .vswitchd import await_reconfiguration


def find_ports(client, names: Collection[str]) -> dict[str, list]:
    """Return the uuids, as OVSDB has them in JSON, of the ports with these names that are there."""
    select = {"op": "select", "table": "Port", "where": [], "columns": ["_uuid", "name"]}
    rows = client.transact(OPEN_VSWITCH, [select])[0]["rows"]
    return {row["name"]: row["_uuid"] for row in rows if row["name"] in names}


def close_ports(client, found: Mapping[str, list], networks: Mapping[str, str], *, write: bool) -> Outcome:
    """Remove those ports of `find_ports` that have one of `networks`; return those that have to be opened again.

    The caller adds them afterwards, as all rows that are missing. `TimedOut` when ovs-vswitchd does not close them.
    """
    ports = {name: found[name] for name in sorted(networks.keys() & found.keys())}
    if ports and write:
        removals = [
            {
                "op": "mutate",
                "table": "Bridge",
                "where": [["ports", "includes", uuid]],
                "mutations": [["ports", "delete", uuid]],
            }
            for uuid in ports.values()
        ]
        client.transact(OPEN_VSWITCH, removals)
        await_reconfiguration(client)
    before, after = {"receives from its link": False}, {"receives from its link": True}
    return Outcome(tuple(Change(OPEN_VSWITCH, "update", "Port", name, networks[name], before, after) for name in ports))


def without_reopened(outcome: Outcome, closed: Outcome) -> Outcome:
    """Return what rows of ports changed, without those that were removed just before, which count as one change."""
    names = {change.name for change in closed.changes}
    changes = tuple(one for one in outcome.changes if one.name not in names)
    return Outcome(changes, outcome.foreign, outcome.refused, outcome.notes)
