# SPDX-License-Identifier: Apache-2.0
"""What the policies of the plan permit, as their APIs define it. Pure.

networking/v1 `NetworkPolicySpec`; policy.networking.k8s.io/v1alpha1: the first rule of an AdminNetworkPolicy that
matches decides, unless it passes the decision on; then NetworkPolicies do where one isolates the workload; then the
first rule of the BaselineAdminNetworkPolicy that matches.

It reads the resolved policies of the plan and none of the rows that are rendered of them, so that a verify run tests
these too.
"""

from __future__ import annotations

import heapq
import ipaddress
from dataclasses import dataclass

INGRESS, EGRESS = "Ingress", "Egress"
_ADMIN, _BASELINE = "AdminNetworkPolicy", "BaselineAdminNetworkPolicy"
# Policies that a reason names; of others their number.
_NAMED = 3


class PolicyPermissions:
    """Who may connect to whom on the networks of a plan."""

    def __init__(self, plan: dict) -> None:
        self._by_network = {name: _Network(described) for name, described in plan.get("policies", {}).items()}

    def refusal(
        self, network: str, source: str, target: str, addresses: tuple[str, str], protocol: str, port: int
    ) -> str:
        """Return why a connection on a network is not permitted, "" when it is.

        The reason names the policy of the cluster whose rule denies it, or the NetworkPolicies or MultiNetworkPolicies
        that isolate the workload in that direction and of which none permits it: at most three, and how many more.
        `source` and `target` are workloads (`namespace/name`), or "" for what is none of them. `addresses` are theirs.
        """
        found = self._by_network.get(network)
        if found is None:
            return ""
        sent = found.decision(EGRESS, source, target, addresses[1], target, protocol, port) if source else None
        if sent and not sent.permits:
            return f"the rules of {sent.by} for {source} do not permit it to send this to {target or addresses[1]}"
        received = found.decision(INGRESS, target, source, addresses[0], target, protocol, port) if target else None
        if received and not received.permits:
            who = source or addresses[0]
            return f"the rules of {received.by} for {target} do not permit it to receive this from {who}"
        return ""

    def permitting(
        self, network: str, source: str, target: str, addresses: tuple[str, str], protocol: str, port: int
    ) -> list[str]:
        """Return which rule permits each end of a connection that is permitted; none where no policy decides.

        The arguments are those of `refusal`. Of several NetworkPolicies that permit it the first by name is named.
        """
        found = self._by_network.get(network)
        if found is None:
            return []
        sent = found.decision(EGRESS, source, target, addresses[1], target, protocol, port) if source else None
        received = found.decision(INGRESS, target, source, addresses[0], target, protocol, port) if target else None
        return [
            *([f"{sent.by} permits {source} to send this to {target or addresses[1]}"] if sent else ()),
            *([f"{received.by} permits {target} to receive this from {source or addresses[0]}"] if received else ()),
        ]

    def isolates(self, direction: str, network: str, workload: str) -> bool:
        """Return whether a policy applies to what a workload sends or receives on a network."""
        found = self._by_network.get(network)
        return found is not None and found.applies(direction, workload)


@dataclass(frozen=True, slots=True)
class _Decision:
    """Whether a connection is permitted, and by what: the rule that permits it, or the policies that do not."""

    permits: bool
    by: str


class _Network:
    def __init__(self, described: dict) -> None:
        self._policies = described["policies"]
        self._admin = described.get("admin", [])
        self._selected = {name: frozenset(members) for name, members in described["selections"].items()}
        self._ports = {name: frozenset(members) for name, members in described["ports"].items()}

    def applies(self, direction: str, subject: str) -> bool:
        """Return whether a policy is about what a workload sends or receives."""
        return bool(self._isolating(direction, subject)) or any(
            subject in self._selected[policy["subjects"]] and rule["direction"] == direction
            for policy in self._admin
            for rule in policy["rules"]
        )

    def decision(
        self, direction: str, subject: str, peer: str, address: str, target: str, protocol: str, port: int
    ) -> _Decision | None:  # fmt: skip
        """Return what decides about a connection of a workload with a peer that has an address, None for nothing."""
        packet = (peer, address, target, protocol, port)
        decided = self._first(_ADMIN, direction, subject, packet)
        if decided:
            return decided
        isolating = self._isolating(direction, subject)
        if isolating:
            permitting = (
                _Decision(True, _rule_of(policy, rule))
                for policy in isolating
                for rule in policy["rules"]
                if rule["direction"] == direction and self._matches(rule, *packet)
            )
            return next(permitting, None) or _Decision(False, _names(isolating))
        return self._first(_BASELINE, direction, subject, packet)

    def _isolating(self, direction: str, subject: str) -> list[dict]:
        return [
            policy
            for policy in self._policies
            if direction in policy["isolates"] and subject in self._selected[policy["subjects"]]
        ]

    def _first(self, kind: str, direction: str, subject: str, packet: tuple) -> _Decision | None:
        """Return what the first rule decides that matches among the cluster's policies of a kind.

        None where it passes the decision on, or none matches.
        """
        for policy in self._admin:
            if policy["kind"] != kind or subject not in self._selected[policy["subjects"]]:
                continue
            for rule in policy["rules"]:
                if rule["direction"] == direction and self._matches(rule, *packet):
                    if rule["action"] == "Pass":
                        return None
                    permits = rule["action"] == "Allow"
                    return _Decision(permits, _rule_of(policy, rule) if permits else f"{kind} {policy['name']}")
        return None

    def _matches(self, rule: dict, peer: str, address: str, target: str, protocol: str, port: int) -> bool:
        return self._is_peer(rule, peer, address) and self._is_port(rule, target, protocol, port)

    def _is_peer(self, rule: dict, peer: str, address: str) -> bool:
        return (
            rule["everyone"]
            or any(peer in self._selected[name] for name in rule["peers"])
            or any(
                _is_in(address, block["cidr"]) and not any(_is_in(address, part) for part in block["except"])
                for block in rule["blocks"]
            )
        )

    def _is_port(self, rule: dict, target: str, protocol: str, port: int) -> bool:
        return not rule["ports"] or any(
            one["protocol"] == protocol and self._has(one, target, port) for one in rule["ports"]
        )

    def _has(self, one: dict, target: str, port: int) -> bool:
        if "name" in one:
            having = self._ports.get(f"{one['protocol']}/{one['name']}/{port}", frozenset())
            return port in one["numbers"] and target in having
        return one["port"] is None or one["port"] <= port <= (one["end"] or one["port"])


def _rule_of(policy: dict, rule: dict) -> str:
    """Return a rule as its manifest has it."""
    return f"spec.{rule['direction'].lower()}[{rule['index']}] of {policy['kind']} {policy['name']}"


def _names(policies: list[dict]) -> str:
    """Return the kind and the names of policies, which are of one kind: a network is a primary one or it is not."""
    kind = policies[0]["kind"]
    if len(policies) == 1:
        return f"{kind} {policies[0]['name']}"
    more = len(policies) - _NAMED
    # Not all are sorted: there may be one reason for each pair of workloads.
    names = ", ".join(heapq.nsmallest(_NAMED, (policy["name"] for policy in policies)))
    return f"{kind.removesuffix('y')}ies {names}{f' and {more} more' if more > 0 else ''}"


def _is_in(address: str, cidr: str) -> bool:
    return ipaddress.ip_address(address) in ipaddress.ip_network(cidr)
