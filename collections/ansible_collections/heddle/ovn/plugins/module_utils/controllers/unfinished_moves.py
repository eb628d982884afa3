# SPDX-License-Identifier: Apache-2.0
"""Which hosts may have addresses that others have by the state: since a move that no run is known to have finished.

A run that is cut off leaves the move in the state, and the hosts as they were. `status.formerAddresses` of a node has
the addresses that it lost since it was last known to have the plan. It is what a run knows of hosts that it does not
reach.
"""

from __future__ import annotations

from collections.abc import Collection

from ..store.snapshot import Snapshot, StoredObject
from .egress.egress_ips import EGRESS_IP, holders
from .services.cluster_ips import SERVICE
from .services.load_balancers import announcers

_FORMER = "formerAddresses"


def note_moves(before: Snapshot, after: Snapshot) -> None:
    """Store in `after` the addresses that hosts had and have no more."""
    lost: dict[str, set[str]] = {}
    had, has = _held(before), _held(after)
    for address, host in had.items():
        lost.setdefault(host, set()).add(address)
    for node in after.of_kind("Node"):
        former = lost.get(node.name, set()) | set(_former(node))
        _store(after, node, [address for address in former if has.get(address) != node.name])


def unfinished_moves(snapshot: Snapshot) -> dict[str, list[str]]:
    """Return the hosts that may have an address that another one, or none, has by the state; sorted."""
    found: dict[str, list[str]] = {}
    for node in snapshot.of_kind("Node"):
        for address in _former(node):
            found.setdefault(address, []).append(node.name)
    return found


def end_moves(snapshot: Snapshot, hosts: Collection[str]) -> None:
    """Store that `hosts` have the plan: they have given up what they lost, and have what others lost to them."""
    has = _held(snapshot)
    for node in snapshot.of_kind("Node"):
        left = () if node.name in hosts else _former(node)
        _store(snapshot, node, [address for address in left if has.get(address) not in hosts])


def _held(snapshot: Snapshot) -> dict[str, str]:
    """Return the host of each address of an EgressIP or a load balancer that has one."""
    found = {address: host for entry in snapshot.of_kind(EGRESS_IP) for address, host in holders(entry).items()}
    return found | {address: host for entry in snapshot.of_kind(SERVICE) for address, host in announcers(entry).items()}


def _former(node: StoredObject) -> list[str]:
    return node.status.get(_FORMER, [])


def _store(snapshot: Snapshot, node: StoredObject, addresses: Collection[str]) -> None:
    snapshot.objects[node.key] = node.with_status(**{_FORMER: sorted(addresses) or None})
