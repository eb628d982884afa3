# SPDX-License-Identifier: Apache-2.0
"""Policies of one network on one node: port groups, address sets, ACLs.

Objects, priorities and ids as in ovn-kubernetes (`base_network_controller_policy.go`, `gress_policy.go`). A policy is
enforced at the ports of the workloads that it selects, so a node has only what concerns its own workloads: their port
groups, the rules on these, and address sets with all members of the cluster for the rules. Port groups and address sets
belong to selectors: policies with equal ones share them.
"""

from __future__ import annotations

from ...common.addressing import family
from ...types.ovsdb_row import Row
from ..common.node_network import NodeNetwork
from .admin_policy import render_admin_policies
from .policy_members import PolicyMembers
from .policy_rows import (
    ALLOW,
    ALLOW_PRIORITY,
    DENY,
    DENY_PRIORITY,
    EGRESS,
    INGRESS,
    LEASES,
    acl,
    on_group,
    on_switch,
    port_group,
    port_match,
)

_HAIRPIN_MASQUERADE = 5
# Index of IP blocks among the ACLs of a rule: all blocks are in one; the other ACL is that of selectors or of everyone.
_BLOCKS, _SELECTORS = "-2", "-1"


def render_policies(view: NodeNetwork) -> list[Row]:
    """Return the rows of the network's policies on this node; none where they select no workload of it.

    Sets are only those that a rule on this node refers to.
    """
    described = view.plan.get("policies", {}).get(view.name)
    if not described:
        return []
    members = PolicyMembers(view, described)
    rows = _NetworkPolicies(members).rows(described["policies"])
    rows += render_admin_policies(members, described.get("admin", []))
    return [*members.sets(), *rows] if rows else []


def render_always_allowed(view: NodeNetwork) -> list[Row]:
    """Return what no NetworkPolicy forbids: connections from the node, and of a workload to itself through a Service.

    They also make the switch track connections where all other rules only deny or do not track, so that replies pass.
    """
    parent = on_switch(view.workload_switch)
    if not view.is_primary:
        return []
    own = " || ".join(f"ip{family(one)}.src == {one}" for one in view.masquerade(_HAIRPIN_MASQUERADE))
    return [
        *(
            acl(
                view, parent, INGRESS, ALLOW_PRIORITY, f"ip{family(address)}.src == {address}", ALLOW,
                owner_type="NetpolNode", keys={"name": view.node, "ip": address},
            )
            for address in view.management_addresses()
        ),
        *(
            acl(
                view, parent, direction, ALLOW_PRIORITY, own, ALLOW,
                owner_type="NetpolDefault", keys={"name": "allow-hairpinning", "direction": direction},
            )
            for direction in (INGRESS, EGRESS)
        ),
    ]  # fmt: skip


class _NetworkPolicies:
    """NetworkPolicies, or on a secondary network MultiNetworkPolicies."""

    def __init__(self, members: PolicyMembers) -> None:
        self._view, self._members = members.view, members
        self._groups: dict[str, Row] = {}

    def rows(self, policies: list[dict]) -> list[Row]:
        """Return port groups and ACLs."""
        rules: list[Row] = []
        isolated: dict[tuple[str, str], set[str]] = {}
        logging: dict[str, dict] = {}
        for policy in policies:
            ports = self._members.local(policy["subjects"])
            if not ports:
                continue
            logging[policy["namespace"]] = policy.get("logging", {})
            for direction in policy["isolates"]:
                isolated.setdefault((policy["namespace"], direction), set()).update(ports)
            for rule in policy["rules"]:
                rules += self._rule(policy, rule)
        denials = [
            row
            for (namespace, direction), ports in isolated.items()
            for row in self._default_deny(namespace, direction, ports, logging[namespace])
        ]
        return [*self._groups.values(), *denials, *rules]

    def _group(self, selection: str) -> Row:
        if selection not in self._groups:
            ports = self._members.local(selection)
            self._groups[selection] = port_group(self._view, "NetworkPolicy", {"name": selection}, ports)
        return self._groups[selection]

    def _default_deny(self, namespace: str, direction: str, ports: set[str], logging: dict) -> list[Row]:
        """Isolated ports of a namespace: what no policy allows is dropped.

        Except that neighbours are resolved, and virtual machines obtain their addresses. On a secondary network the
        former rule is also the one that makes its switch track connections, so that replies pass.
        """
        view, keys = self._view, {"name": namespace, "direction": direction}
        group = port_group(view, "NetpolNamespace", keys, ports)
        at_port = port_match(direction, group.key)
        return [
            group,
            *(
                acl(
                    view, on_group(group), direction, priority, match, action,
                    owner_type="NetpolNamespace", keys={**keys, "type": kind}, label=f"NP:{namespace}:{direction}",
                    logging=logging if kind == "defaultDeny" else None,
                )
                for kind, priority, match, action in (
                    ("defaultDeny", DENY_PRIORITY, at_port, DENY),
                    ("arpAllow", ALLOW_PRIORITY, f"{at_port} && (arp || nd)", "allow" if view.is_primary else ALLOW),
                    ("dhcpAllow", ALLOW_PRIORITY, f"{at_port} && ({LEASES})", "allow"),
                )
                if kind != "dhcpAllow" or (direction == EGRESS and not ports.isdisjoint(self._members.machines))
            ),
        ]  # fmt: skip

    def _rule(self, policy: dict, rule: dict) -> list[Row]:
        match, direction = self._members.match(rule), rule["direction"]
        group = self._group(policy["subjects"])
        sources = {_SELECTORS: match.peers(), _BLOCKS: match.blocks()}
        name = policy["name"].replace("/", ":")
        keys = {"name": name, "direction": direction, "gress-index": str(rule["index"])}
        found = []
        for index, addresses in sources.items():
            for protocol, transport in match.transports().items() if addresses else ():
                parts = [addresses, transport, port_match(direction, group.key)]
                found.append(
                    acl(
                        self._view, on_group(group), direction, ALLOW_PRIORITY, " && ".join(filter(None, parts)), ALLOW,
                        owner_type="NetworkPolicy",
                        keys={**keys, "port-policy-protocol": protocol, "ip-block-index": index},
                        label=f"NP:{name}:{direction}:{rule['index']}", logging=policy.get("logging"),
                    )
                )  # fmt: skip
        if found:
            self._members.use(rule)
        return found
