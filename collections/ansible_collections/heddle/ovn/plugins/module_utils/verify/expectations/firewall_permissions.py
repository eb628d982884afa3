# SPDX-License-Identifier: Apache-2.0
"""What the EgressFirewalls of the plan permit workloads to send beyond their network. Pure.

The first rule that matches decides (k8s.ovn.org/v1). It reads the plan and none of the rows that are rendered of it.
"""

from __future__ import annotations

import ipaddress


class FirewallPermissions:
    """Where workloads may connect to by the firewall of their namespace."""

    def __init__(self, plan: dict) -> None:
        self._networks = plan["networks"]
        self._rules: dict[tuple[str, str], tuple[str, list[dict]]] = {
            (network, workload): (firewall["namespace"], firewall["rules"])
            for network, firewalls in plan.get("egress_firewalls", {}).items()
            for firewall in firewalls
            for workload in firewall["workloads"]
        }

    def restricts(self, network: str, workload: str) -> bool:
        """Return whether rules apply to a workload."""
        return bool(self._rules.get((network, workload), ("", []))[1])

    def by_name(self, network: str, workload: str, address: str, protocol: str, port: int) -> str:
        """Return which rule's DNS name may decide about a destination, "" when none does.

        The plan does not have the addresses of a name, so what such a rule decides is not known from it.
        """
        namespace, rules = self._rules.get((network, workload), ("", []))
        if not rules or self._inside(network, address):
            return ""
        for number, rule in enumerate(rules):
            about = not rule["ports"] or {"protocol": protocol, "port": port} in rule["ports"]
            if about and "dns_name" in rule:
                return f"rule {number} of the EgressFirewall of {namespace} is about {rule['dns_name']}"
            if about and any(_is_in(address, target) for target in rule["targets"]):
                return ""
        return ""

    def untested(self) -> list[str]:
        """Return one line for each namespace whose firewall has rules about DNS names."""
        names: dict[str, set[str]] = {}
        for namespace, rules in self._rules.values():
            names.setdefault(namespace, set()).update(rule["dns_name"] for rule in rules if "dns_name" in rule)
        return [
            f"{namespace}: packets to {', '.join(sorted(found))} are not tested, the plan has no addresses of DNS names"
            for namespace, found in sorted(names.items())
            if found
        ]

    def refusal(self, network: str, workload: str, address: str, protocol: str, port: int) -> str:
        """Return why a workload (`namespace/name`) may not send to an address, "" when it may."""
        namespace, rules = self._rules.get((network, workload), ("", []))
        if not rules or self._inside(network, address):
            return ""
        for number, rule in enumerate(rules):
            here = any(_is_in(address, target) for target in rule["targets"])
            if here and (not rule["ports"] or {"protocol": protocol, "port": port} in rule["ports"]):
                return "" if rule["allow"] else f"rule {number} of the EgressFirewall of {namespace} denies it"
        return ""

    def _inside(self, network: str, address: str) -> bool:
        described = self._networks[network]
        return any(_is_in(address, subnet) for subnet in (*described["subnets"], *described["join_subnets"]))


def _is_in(address: str, target: str) -> bool:
    return ipaddress.ip_address(address) in ipaddress.ip_network(target)
