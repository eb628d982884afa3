# SPDX-License-Identifier: Apache-2.0
"""Addresses that move between hosts: the plans by which a host prepares for those it gets, and gives up those it loses.

Only the last step of a move interrupts connections, so it has to be short: the former host gives the address up, and
the new one, which has everything else already, sets it and announces it. A host keeps such a plan as any other one, so
that `heddle-host` keeps it between the steps; a later run ends the move, wherever it was cut off.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ...common.serialization import digest
from .entrances import held_addresses, without_services
from .node_network import is_on

# Part of such a plan: addresses that are not on the device of the host that holds them.
UNANNOUNCED = "unannounced"


def announced_addresses(plan: dict, node: str) -> list[str]:
    """Return the addresses that a node has for others on its provider bridge."""
    hidden = set(plan.get(UNANNOUNCED, ()))
    return [address for address in held_addresses(plan, node) if address not in hidden]


def prepared_plan(plan: dict, node: str, moved: Mapping[str, str]) -> dict | None:
    """Return the plan with which a node waits for a move; None where it has to stay as it is.

    `moved` has the former host of each address that moves. Workloads leave by these until then. The node has all that
    the addresses need that it gets, and does not answer for them. A former host stays as it is: its endpoints may go
    with the address.
    """
    if node in moved.values() or not _reached(plan, moved):
        return None
    got = [address for address in held_addresses(plan, node) if address in moved]
    entries = {}
    for name, entry in plan["egress_ips"].items():
        addresses = [{**one, "node": moved.get(one["address"], one["node"])} for one in entry["addresses"]]
        arriving = [one["address"] for one in entry["addresses"] if one["address"] in got]
        entries[name] = {**entry, "addresses": addresses, **({"arriving": arriving} if arriving else {})}
    return _completed({**plan, "egress_ips": entries}, got)


def _reached(plan: dict, moved: Mapping[str, str]) -> bool:
    """Return whether workloads can leave by the former hosts of egress addresses: whether these have the networks.

    No EgressService may leave with an address that moves: it changes its host with it.
    """
    if without_services(plan, moved) != plan.get("egress_services", {}):
        return False
    return all(
        is_on(plan["networks"][network], moved[one["address"]])
        for entry in plan["egress_ips"].values()
        for one in entry["addresses"]
        if one["address"] in moved
        for network in entry["workloads"]
    )


def released_plan(stored: dict, plan: dict, node: str, moved: Mapping[str, str]) -> dict | None:
    """Return the stored plan of a node without the addresses that it loses; None where there is nothing to give up.

    What still arrives with the mark of such an egress address is dropped, as it would leave with the node's address.
    """
    new = {one["address"]: one["node"] for entry in plan["egress_ips"].values() for one in entry["addresses"]}
    lost = {address for address in announced_addresses(stored, node) if moved.get(address) == node}
    if not lost or node not in stored["nodes"]:
        return None
    entries = {}
    for name, entry in stored["egress_ips"].items():
        gone = [one["address"] for one in entry["addresses"] if one["address"] in lost and one["node"] == node]
        addresses = [
            {**one, "node": new.get(one["address"], node)} if one["address"] in gone else one
            for one in entry["addresses"]
        ]
        entries[name] = {**entry, "addresses": addresses, **({"leaving": gone} if gone else {})}
    left = {**stored, "egress_ips": entries}
    if "egress_services" in stored:
        left["egress_services"] = without_services(stored, lost)
    return _completed(left, sorted(lost | set(stored.get(UNANNOUNCED, ()))))


def pending_addresses(stored: dict, plan: dict, node: str) -> list[str]:
    """Return the addresses of a plan that the node has by it and has prepared for by its stored plan."""
    waiting = set(stored.get(UNANNOUNCED, ()))
    return [address for address in announced_addresses(plan, node) if address in waiting]


def _completed(plan: dict, unannounced: Collection[str]) -> dict:
    """Return a plan with the digest of its content."""
    content = {name: value for name, value in plan.items() if name not in ("digest", "revision")}
    if unannounced:
        content[UNANNOUNCED] = list(unannounced)
    return {**content, "digest": digest(content), "revision": plan["revision"]}
