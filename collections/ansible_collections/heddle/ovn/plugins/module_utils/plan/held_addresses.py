# SPDX-License-Identifier: Apache-2.0
"""The addresses that one host at a time has for others: those of EgressIPs and of load balancers."""

from __future__ import annotations


def moved_addresses(before: dict, after: dict) -> list[str]:
    """Return the addresses that one host has in a plan, and another one in the next plan."""
    had, has = holders(before), holders(after)
    return sorted(address for address, host in has.items() if had.get(address, host) != host)


def holders(plan: dict) -> dict[str, str]:
    """Return the host of each of these addresses."""
    found = {one["address"]: one["node"] for entry in plan.get("egress_ips", {}).values() for one in entry["addresses"]}
    for services in plan.get("services", {}).values():
        for service in services.values():
            found |= {one["address"]: one["node"] for one in service.get("external", {}).get("load_balancer", ())}
    return found
