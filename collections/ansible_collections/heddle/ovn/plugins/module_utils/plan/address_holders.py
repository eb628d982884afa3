# SPDX-License-Identifier: Apache-2.0
"""The addresses that one host at a time has for others: those of EgressIPs and of load balancers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

Reported = Mapping[str, Collection[str]]
Unfinished = Mapping[str, Sequence[str]]


def moved_addresses(
    before: dict, after: dict, reported: Reported | None = None, unfinished: Unfinished | None = None
) -> dict[str, str]:  # fmt: skip
    """Return the addresses that one host has in a plan and another one in the next plan, each with the former host.

    `reported` has the addresses that hosts have in fact, which differ from the plan after a run that was cut off. What
    its new host has as well does not move: a former host that was not reached gives it up when it applies the plan.
    `unfinished` are moves that began before (`controllers/unfinished_moves.py`); where a host reports the address, that
    counts. A host that is not in the next plan is left out: no run reaches it.
    """
    had, has, reported = holders(before), holders(after), reported or {}
    seen = {address for addresses in reported.values() for address in addresses}
    had |= {
        address: hosts[0]
        for address, hosts in (unfinished or {}).items()
        if address not in seen and had.get(address) in (None, has.get(address))
    }
    for host, addresses in reported.items():
        had |= {
            address: host
            for address in addresses
            if has.get(address, host) != host and address not in reported.get(has[address], ())
        }
    return {
        address: had[address]
        for address, host in sorted(has.items())
        if had.get(address, host) != host and had[address] in after["nodes"]
    }


def holders(plan: dict) -> dict[str, str]:
    """Return the host of each of these addresses."""
    found = {one["address"]: one["node"] for entry in plan.get("egress_ips", {}).values() for one in entry["addresses"]}
    for services in plan.get("services", {}).values():
        for service in services.values():
            found |= {one["address"]: one["node"] for one in service.get("external", {}).get("load_balancer", ())}
    return found
