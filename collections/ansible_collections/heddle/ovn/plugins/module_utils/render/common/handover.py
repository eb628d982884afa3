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
    networks = _with_former_hosts(plan, moved)
    if node in moved.values() or networks is None:
        return None
    got = [address for address in held_addresses(plan, node) if address in moved]
    entries = {}
    for name, entry in plan["egress_ips"].items():
        addresses = [{**one, "node": moved.get(one["address"], one["node"])} for one in entry["addresses"]]
        arriving = [one["address"] for one in entry["addresses"] if one["address"] in got]
        entries[name] = {**entry, "addresses": addresses, **({"arriving": arriving} if arriving else {})}
    return _completed({**plan, "networks": networks, "egress_ips": entries}, got)


def _with_former_hosts(plan: dict, moved: Mapping[str, str]) -> dict[str, dict] | None:
    """Return the networks, each also on the former hosts by which its workloads leave until the move.

    None where that is not possible: a Layer3 network without a subnet for such a host any more, or an EgressService
    that may leave with an address that moves: it changes its host with it.
    """
    if without_services(plan, moved) != plan.get("egress_services", {}):
        return None
    needed: dict[str, set[str]] = {}
    for entry in plan["egress_ips"].values():
        former = {moved[one["address"]] for one in entry["addresses"] if one["address"] in moved}
        for network in entry["workloads"]:
            needed.setdefault(network, set()).update(former)
    networks = dict(plan["networks"])
    for name, hosts in needed.items():
        network = networks[name]
        missing = {host for host in hosts if not is_on(network, host)}
        if missing and not ("nodes" in network and missing <= set(network.get("host_subnets", missing))):
            return None
        if missing:
            networks[name] = {
                **network,
                "nodes": [one for one in plan["nodes"] if one in {*network["nodes"], *missing}],
            }
    return networks


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


def rerouting_plan(plan: dict, node: str, moved: Mapping[str, str]) -> dict | None:
    """Return the plan with which a node takes part in a move of egress addresses; None where none of these moves.

    Workloads leave by the new hosts. A former host still marks and drops what other nodes send to it that do not have
    the plan yet, until all have it: it would leave with the address of the node.
    """
    entries = {}
    for name, entry in plan["egress_ips"].items():
        gone = [one["address"] for one in entry["addresses"] if moved.get(one["address"]) == node]
        entries[name] = {**entry, "leaving": gone} if gone else entry
    if not any(one["address"] in moved for entry in entries.values() for one in entry["addresses"]):
        return None
    return plan if entries == plan["egress_ips"] else _completed({**plan, "egress_ips": entries}, ())


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
