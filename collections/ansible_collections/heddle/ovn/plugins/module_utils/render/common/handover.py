# SPDX-License-Identifier: Apache-2.0
"""Addresses that move between hosts: the plans by which hosts prepare for a move, and do it step by step.

Only the last steps of a move interrupt connections, so they have to be short: the former host gives the address up;
then the new one, which has everything else already, sets and announces it, and workloads are led there. Whatever order
hosts take a step in, nothing leaves with an address that its host does not have, nor with that of a host instead. A
host keeps such a plan as any other one, so that `heddle-host` keeps it between the steps; a later run ends the move,
wherever it was cut off.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ...common.naming import DEFAULT_NETWORK
from .entrances import held_addresses
from .host_plan import host_plan
from .moving import UNANNOUNCED
from .node_network import is_on


def announced_addresses(plan: dict, node: str) -> list[str]:
    """Return the addresses that a node has for others on its provider bridge."""
    hidden = set(plan.get(UNANNOUNCED, ()))
    return [address for address in held_addresses(plan, node) if address not in hidden]


def prepared_plan(plan: dict, node: str, moved: Mapping[str, str]) -> dict | None:
    """Return the plan with which a node waits for a move; None where it has to stay as it is.

    `moved` has the former host of each address that moves. Workloads leave by these until then. The node has all that
    the addresses need that it gets, and neither answers for them nor sends with them. A former host of other addresses
    than those of EgressIPs on its provider bridge stays as it is: the endpoints of a Service may go with its address.
    """
    services = _services_with_former_hosts(plan, node, moved)
    networks = _with_former_hosts(plan, moved, services or {})
    lost = {address for address, host in moved.items() if host == node}
    if services is None or networks is None or not lost <= _on_bridges(plan):
        return None
    got = [address for address in held_addresses(plan, node) if address in moved]
    entries = {}
    for name, entry in plan["egress_ips"].items():
        addresses = [{**one, "node": moved.get(one["address"], one["node"])} for one in entry["addresses"]]
        arriving = [one["address"] for one in entry["addresses"] if one["address"] in got]
        entries[name] = {**entry, "addresses": addresses, **({"arriving": arriving} if arriving else {})}
    changed = {"networks": networks, "egress_ips": entries, **({"egress_services": services} if services else {})}
    return _completed({**plan, **changed}, node, got)


def _on_bridges(plan: dict) -> set[str]:
    """Return the addresses of EgressIPs that are on no other NICs of hosts."""
    entries = plan["egress_ips"].values()
    return {one["address"] for entry in entries for one in entry["addresses"] if "nic" not in one}


def _services_with_former_hosts(plan: dict, node: str, moved: Mapping[str, str]) -> dict[str, dict] | None:
    """Return the EgressServices by network, with the former hosts of those whose addresses move.

    None where the kernel routes such a one by a table of its own: what it sends does not pass the provider bridge,
    whose flows keep a host from sending before it has the address.
    """
    found: dict[str, dict] = {}
    for network, entries in plan.get("egress_services", {}).items():
        found[network] = {}
        for name, entry in entries.items():
            addresses = [one for one in entry["addresses"] if one in moved]
            if addresses and _has_own_table(network, entry):
                return None
            arriving = {"arriving": addresses} if entry["host"] == node else {}
            found[network][name] = {**entry, "host": moved[addresses[0]], **arriving} if addresses else entry
    return found


def _has_own_table(network: str, entry: dict) -> bool:
    return network == DEFAULT_NETWORK and bool(entry["table"])


def _with_former_hosts(plan: dict, moved: Mapping[str, str], services: dict) -> dict[str, dict] | None:
    """Return the networks, each also on the former hosts by which its workloads leave until the move.

    `services` are EgressServices with these hosts. None where that is not possible: a Layer3 network without a subnet
    for such a host any more.
    """
    needed: dict[str, set[str]] = {}
    for network, entries in services.items():
        former = {entry["host"] for entry in entries.values() if not moved.keys().isdisjoint(entry["addresses"])}
        if former:
            needed.setdefault(network, set()).update(former)
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


def is_prepared(stored: dict, plan: dict, node: str, moved: Mapping[str, str]) -> bool:
    """Return whether a node has the plan with which it waits for a move."""
    prepared = prepared_plan(plan, node, moved)
    return prepared is not None and stored.get("digest") == prepared["digest"]


def released_plan(stored: dict, plan: dict, node: str, moved: Mapping[str, str]) -> dict | None:
    """Return the stored plan of a node without the addresses that it loses; None where there is nothing to give up.

    What still arrives for such an egress address is dropped, as it would leave with the node's address. Where the node
    is prepared, its workloads leave by the new hosts of all addresses once its rows follow this plan.
    """
    lost = _lost(stored, node, moved)
    if not lost or node not in stored["nodes"]:
        return None
    return _released(stored, plan, node, moved, lost, prepared=is_prepared(stored, plan, node, moved))


def _lost(stored: dict, node: str, moved: Mapping[str, str]) -> set[str]:
    """Return the addresses that a node has by its stored plan and loses."""
    return {address for address in announced_addresses(stored, node) if moved.get(address) == node}


def _released(stored: dict, plan: dict, node: str, moved: Mapping[str, str], lost: set[str], *, prepared: bool) -> dict:
    left = {**stored, "egress_ips": _moved_entries(stored, plan, node, moved if prepared else lost, lost)}
    if "egress_services" in stored:
        left["egress_services"] = _moved_services(stored, plan, moved if prepared else lost, lost)
    return _completed(left, node, sorted(lost | set(stored.get(UNANNOUNCED, ()))))


def _moved_entries(stored: dict, plan: dict, node: str, moved: Collection[str], lost: set[str]) -> dict[str, dict]:
    """Return the EgressIPs of a stored plan with the new hosts of addresses; the node has lost some of these."""
    new = {one["address"]: one["node"] for entry in plan["egress_ips"].values() for one in entry["addresses"]}
    entries = {}
    for name, entry in stored["egress_ips"].items():
        addresses = [
            {**one, "node": new.get(one["address"], one["node"])} if one["address"] in moved else one
            for one in entry["addresses"]
        ]
        gone = [one["address"] for one in entry["addresses"] if one["address"] in lost and one["node"] == node]
        entries[name] = {**entry, "addresses": addresses, **({"leaving": gone} if gone else {})}
    return entries


def _moved_services(stored: dict, plan: dict, moved: Collection[str], lost: set[str]) -> dict[str, dict]:
    """Return the EgressServices of a stored plan with the new hosts of addresses; the node has lost some of these.

    Left out is one that is none any more by the plan, and what a table of its own routes (`prepared_plan`).
    """
    found: dict[str, dict] = {}
    for network, entries in stored["egress_services"].items():
        for name, entry in entries.items():
            new = plan.get("egress_services", {}).get(network, {}).get(name)
            if set(moved).isdisjoint(entry["addresses"]):
                found.setdefault(network, {})[name] = entry
            elif new and new["addresses"] and not _has_own_table(network, entry):
                gone = [one for one in entry["addresses"] if one in lost]
                leaving = {"leaving": gone} if gone else {}
                found.setdefault(network, {})[name] = {**entry, "host": new["host"], **leaving}
    return found


def claimed_plan(
    stored: dict, plan: dict, node: str, moved: Mapping[str, str], released: Collection[str] | None = None
) -> dict | None:
    """Return the stored plan of a node with the addresses that it gets; None where it did not prepare for them.

    Its workloads leave by the new hosts. A former host has given up what it loses, and goes on dropping what others may
    still send to it. `released` are the former hosts that have given up their addresses, None for all: the node goes on
    waiting for addresses of others.
    """
    prepared = prepared_plan(plan, node, moved)
    if prepared is None or node not in prepared["nodes"]:
        return None
    lost = _lost(prepared, node, moved)
    waiting = _released(prepared, plan, node, moved, lost, prepared=True)
    left = [address for address in waiting.get(UNANNOUNCED, ()) if address in stored.get(UNANNOUNCED, ())]
    # Either it has taken none yet, or some of them.
    if stored.get("digest") not in (
        (waiting if lost else prepared)["digest"],
        _completed(waiting, node, left)["digest"],
    ):
        return None
    got = set(held_addresses(plan, node))
    if released is not None:
        got = {address for address in got if moved.get(address) in released}
    return _completed(waiting, node, [address for address in left if address not in got])


def new_hosts(plan: dict, moved: Mapping[str, str]) -> set[str]:
    """Return the nodes that get addresses which move."""
    return {node for node in plan["nodes"] if not moved.keys().isdisjoint(held_addresses(plan, node))}


def rerouting_plan(plan: dict, node: str, moved: Mapping[str, str]) -> dict | None:
    """Return the plan of a node that could not prepare for a move of egress addresses; None where none of these moves.

    Workloads leave by the new hosts. A former host still marks and drops what other nodes send to it that do not have
    the plan yet, until all have it: it would leave with the address of the node.
    """
    services = plan.get("egress_services", {})
    changed = {
        "egress_ips": {
            name: _with_leaving(entry, [one["address"] for one in entry["addresses"]], node, moved)
            for name, entry in plan["egress_ips"].items()
        },
        **(
            {
                "egress_services": {
                    network: {
                        name: _with_leaving(entry, entry["addresses"], node, moved) for name, entry in entries.items()
                    }
                    for network, entries in services.items()
                }
            }
            if services
            else {}
        ),
    }
    if moved.keys().isdisjoint(_egress_addresses(plan)):
        return None
    return _completed({**plan, **changed}, node, ())


def _egress_addresses(plan: dict) -> set[str]:
    """Return the addresses of all EgressIPs and EgressServices."""
    addresses = {one["address"] for entry in plan["egress_ips"].values() for one in entry["addresses"]}
    return addresses | service_addresses(plan)


def service_addresses(plan: dict) -> set[str]:
    """Return the addresses that EgressServices may leave with."""
    entries = [entry for entries in plan.get("egress_services", {}).values() for entry in entries.values()]
    return {address for entry in entries for address in entry["addresses"]}


def _with_leaving(entry: dict, addresses: Collection[str], node: str, moved: Mapping[str, str]) -> dict:
    gone = [address for address in addresses if moved.get(address) == node]
    return {**entry, "leaving": gone} if gone else entry


def pending_addresses(stored: dict, plan: dict, node: str) -> list[str]:
    """Return the addresses of a plan that the node has by it and has prepared for by its stored plan."""
    waiting = set(stored.get(UNANNOUNCED, ()))
    return [address for address in announced_addresses(plan, node) if address in waiting]


def _completed(plan: dict, node: str, unannounced: Collection[str]) -> dict:
    """Return a node's part of a plan, with the addresses that it has and does not announce yet."""
    content = {name: value for name, value in plan.items() if name != UNANNOUNCED}
    if unannounced:
        content[UNANNOUNCED] = list(unannounced)
    return host_plan(content, node)
