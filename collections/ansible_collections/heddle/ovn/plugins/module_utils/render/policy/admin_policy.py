# SPDX-License-Identifier: Apache-2.0
"""Policies of the cluster on one network and one node: AdminNetworkPolicy and BaselineAdminNetworkPolicy.

Tiers, port groups, priorities and ids of ACLs as in ovn-kubernetes (`controller/admin_network_policy`): tier 1 comes
before NetworkPolicies, `pass` leaves the decision to them, and tier 3 decides about what none of them isolates.
"""

from __future__ import annotations

from ...types.ovsdb_row import Row
from .policy_members import PolicyMembers
from .policy_rows import ALLOW, DENY, EGRESS, LEASES, acl, on_group, port_group, port_match

# The tier of a kind, and its name in the names of ACLs.
_KINDS = {"AdminNetworkPolicy": (1, "ANP"), "BaselineAdminNetworkPolicy": (3, "BANP")}
# Above all rules of a tier.
_BEFORE_RULES = {1: 30001, 3: 1751}
_ACTIONS = {"Allow": ALLOW, "Deny": DENY, "Pass": "pass"}


def render_admin_policies(members: PolicyMembers, policies: list[dict]) -> list[Row]:
    """Return port groups and ACLs of the policies that select workloads of this node."""
    return [row for policy in policies for row in _policy(members, policy)]


def _policy(members: PolicyMembers, policy: dict) -> list[Row]:
    ports = members.local(policy["subjects"])
    if not ports:
        return []
    view, kind, name = members.view, policy["kind"], policy["name"]
    tier, short = _KINDS[kind]
    group = port_group(view, kind, {"name": name}, ports)
    rows = [group]
    for rule in policy["rules"]:
        match, direction = members.match(rule), rule["direction"]
        addresses, transports = match.peers_or_blocks(), match.transports()
        if not addresses or not transports:
            continue
        members.use(rule)
        keys = {"name": name, "direction": direction, "gress-index": str(rule["index"])}
        rows += [
            acl(
                view, on_group(group), direction, policy["first"] - rule["index"],
                " && ".join(filter(None, [addresses, transport, port_match(direction, group.key)])),
                _ACTIONS[rule["action"]], owner_type=kind, keys={**keys, "port-policy-protocol": protocol},
                label=f"{short}:{name}:{direction}:{rule['index']}", tier=tier, logging=policy.get("logging"),
            )
            for protocol, transport in transports.items()
        ]  # fmt: skip
    if any(rule["direction"] == EGRESS and rule["blocks"] for rule in policy["rules"]):
        rows += _leases(members, policy, group, ports)
    return rows


def _leases(members: PolicyMembers, policy: dict, group: Row, ports: set[str]) -> list[Row]:
    """Virtual machines obtain their addresses, also where a rule is about all destinations."""
    if ports.isdisjoint(members.machines):
        return []
    tier, _short = _KINDS[policy["kind"]]
    keys = {"name": policy["name"], "direction": EGRESS, "type": "dhcpAllow"}
    match = f"{port_match(EGRESS, group.key)} && ({LEASES})"
    return [
        acl(
            members.view, on_group(group), EGRESS, _BEFORE_RULES[tier], match, "allow", owner_type=policy["kind"],
            keys=keys, tier=tier,
        )
    ]  # fmt: skip
