# SPDX-License-Identifier: Apache-2.0
"""The addresses that one host at a time has for others: those of EgressIPs and of load balancers."""

from __future__ import annotations

from collections.abc import Collection, Mapping


def moved_addresses(before: dict, after: dict, reported: Mapping[str, Collection[str]] | None = None) -> dict[str, str]:
    """Return the addresses that one host has in a plan and another one in the next plan, each with the former host.

    `reported` has the addresses that hosts have in fact, which differ from the plan after a run that was cut off. What
    its new host has as well does not move: a former host that was not reached gives it up when it applies the plan. A
    host that is not in the next plan is left out: no run reaches it.
    """
    had, has, reported = holders(before), holders(after), reported or {}
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
