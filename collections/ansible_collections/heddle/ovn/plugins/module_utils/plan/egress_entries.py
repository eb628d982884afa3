# SPDX-License-Identifier: Apache-2.0
"""The plan's entry for each EgressIP: the host of each address, the mark of its packets, and the workloads."""

from __future__ import annotations

from ..controllers.egress_ips import EGRESS_IP, MARK_POOL, EgressSelection, holders
from ..controllers.networks import Network
from ..store.snapshot import Snapshot


def egress_ip_entries(snapshot: Snapshot, found: dict[str, Network]) -> dict[str, dict]:
    """Return the EgressIPs by name; `found` are the networks in effect. One without any host is left out."""
    entries = [entry for entry in snapshot.of_kind(EGRESS_IP) if holders(entry)]
    selection = EgressSelection(snapshot, found) if entries else None
    return {
        entry.name: {
            "mark": int(snapshot.get(MARK_POOL, entry.name)),
            "addresses": [{"address": address, "node": node} for address, node in holders(entry).items()],
            "workloads": selection.workloads[entry.name],
        }
        for entry in entries
    }


def networks_of(entries: dict[str, dict]) -> dict[str, list[str]]:
    """Return the names of the EgressIPs by the networks of their workloads."""
    found: dict[str, list[str]] = {}
    for name, entry in entries.items():
        for network in entry["workloads"]:
            found.setdefault(network, []).append(name)
    return found
