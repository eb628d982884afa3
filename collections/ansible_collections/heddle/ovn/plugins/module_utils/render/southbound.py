# SPDX-License-Identifier: Apache-2.0
"""Renders the other hosts as remote chassis in this zone's Southbound database.

ovn-architecture, "OVN Interconnection"; rows as ovn-kubernetes's chassis handler writes them. ovn-ic is not used.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..types.ovsdb_row import Parent, Row
from .common.overlay import overlay_of

TABLES = ("Chassis", "Encap")


def render_southbound(plan: dict, node: str, others: Iterable[str] | None = None) -> list[Row]:
    """Return Chassis and Encap rows of the nodes `others`, of all when it is None, whose chassis is known."""
    rows, overlay = [], overlay_of(plan)
    for name in plan["nodes"] if others is None else others:
        remote = plan["nodes"][name]
        chassis = remote["chassis"]
        if name == node or not chassis:
            continue
        columns = {"name": chassis, "hostname": name, "other_config": {"is-remote": "true"}}
        rows.append(Row("Chassis", chassis, columns))
        for address in remote["encap_ips"]:
            encap = {
                "type": overlay.kind, "ip": address, "chassis_name": chassis, "options": dict(overlay.options),
            }  # fmt: skip
            # By address, which is the database's unique index: a reinstalled host keeps its row.
            rows.append(Row("Encap", address, encap, parent=Parent("Chassis", chassis, "encaps")))
    return rows
