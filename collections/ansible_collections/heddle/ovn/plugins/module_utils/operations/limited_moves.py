# SPDX-License-Identifier: Apache-2.0
"""Moves of addresses in a run that leaves out hosts of the inventory, and from hosts that are no longer in it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from ..agent.module_runner import UserError
from ..controllers.address_holders import update_holders
from ..plan import build_plan
from ..plan.address_holders import Reported, Unfinished, holders, moved_addresses
from ..render.common.hosting_nodes import hosting_nodes
from ..store.snapshot import Snapshot


def hosts_left_out(reports: Mapping[str, dict]) -> set[str]:
    """Return the hosts that the limit of the run leaves out, of what `readiness.host_state` takes for each."""
    return {name for name, report in reports.items() if not report.get("asked", True)}


def move_hosts(plan: dict, moved: Mapping[str, str]) -> dict[str, set[str]]:
    """Return the hosts that the move of each address needs; `plan` has the new ones, `moved` the former ones.

    Without its former host an address would be on two, without its new one on none. What workloads of any other host
    send that leave with it would leave with the address of the former host, until their own host has the plan.
    """
    new = holders(plan)
    found = {address: {former, new[address]} for address, former in moved.items()}
    for addresses, names in _leaving(plan):
        nodes = {node for name in names for node in hosting_nodes(plan["workloads"][name])}
        for address in found.keys() & addresses:
            found[address] |= nodes
    return found


def _leaving(plan: dict) -> Iterator[tuple[set[str], list[str]]]:
    """Yield addresses with the workloads that leave with one of them."""
    for entry in plan["egress_ips"].values():
        yield (
            {one["address"] for one in entry["addresses"]},
            [one for keys in entry["workloads"].values() for one in keys],
        )
    for entries in plan.get("egress_services", {}).values():
        for entry in entries.values():
            yield set(entry["addresses"]), entry["workloads"]


def refuse_left_out(
    before: dict,
    after: dict,
    left_out: Collection[str],
    unfinished: Unfinished | None = None,
    reported: Reported | None = None,
) -> None:
    """Raise UserError where addresses move between two plans and a host that this needs is left out of the run.

    So do those of `unfinished` moves, as for `moved_addresses`: no host of a limited run knows whether others still
    have them. Where the host that has an address by the plan `before` is of those that `reported` it, it has moved.
    """
    if not left_out:
        return
    old, new, reported = holders(before), holders(after), reported or {}
    waiting = {
        address: hosts
        for address, hosts in (unfinished or {}).items()
        if address not in reported.get(old.get(address, ""), ())
    }
    moved = moved_addresses(before, after, unfinished=waiting)
    missing: set[str] = set()
    moves = []
    for address, needed in move_hosts(after, moved).items():
        needed |= {*waiting.get(address, ())}
        if not needed.isdisjoint(left_out):
            missing |= needed.intersection(left_out)
            moves.append(f"{address} from {moved[address]} to {new[address]}")
    if moves:
        raise UserError(
            f"the limit of this run leaves out {', '.join(sorted(missing))}, and addresses move that these hosts have, "
            f"get, or send with: {', '.join(moves)}; nothing was written. Add them to --limit, or run this without a "
            "limit"
        )


def update_holders_within(before: Snapshot, after: Snapshot, now: str, left_out: Collection[str]) -> None:
    """Do what `update_holders` does; an address stays where it is if a host that its move needs is left out."""
    objects, kept = after.objects, {}
    while True:
        after.objects = dict(objects)
        update_holders(before, after, now, kept=kept)
        if not left_out:
            return
        plan = build_plan(after)
        moved = moved_addresses(build_plan(before), plan)
        staying = {
            address: moved[address]
            for address, needed in move_hosts(plan, moved).items()
            if not needed.isdisjoint(left_out)
        }
        if not staying:
            return
        kept = {**kept, **staying}


def departed_lines(before: dict, after: dict) -> list[str]:
    """Return a line for each host that is not in the next plan any more and had addresses, with the remedy."""
    had: dict[str, list[str]] = {}
    new = holders(after)
    for address, host in sorted(holders(before).items()):
        if host not in after["nodes"]:
            now = f"now at {new[address]}" if address in new else "now at no host"
            had.setdefault(host, []).append(f"{address} ({now})")
    return [
        f"{host} has left the inventory with {', '.join(addresses)}: no run reaches it. While it runs it answers for "
        "these addresses and sends with them, unless Heddle was removed from it before. Switch it off, or put it into "
        f"the inventory again, run heddle.ovn.uninstall --limit {host}, and take it out"
        for host, addresses in had.items()
    ]
