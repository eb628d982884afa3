# SPDX-License-Identifier: Apache-2.0
"""Network policies of one network on one node: port groups, address sets, ACLs.

Objects, priorities and ids as in ovn-kubernetes (`base_network_controller_policy.go`, `gress_policy.go`). A policy is
enforced at the ports of the workloads that it selects, so a node has only what concerns its own workloads: their port
groups, the rules on these, and address sets with all members of the cluster for the rules. Port groups and address sets
belong to selectors: policies with equal ones share them.
"""

from __future__ import annotations

from ...common.addressing import family, plain
from ...common.naming import LOCKED_ROLE
from ...types.ovsdb_row import Row
from ..common.dhcp_server import SERVER
from ..common.hosting_nodes import hosting_nodes
from ..common.node_network import NodeNetwork
from .policy_match import PORT_SET, SELECTOR_SET, RuleMatch
from .policy_rows import (
    ALLOW,
    ALLOW_PRIORITY,
    DENY,
    DENY_PRIORITY,
    EGRESS,
    INGRESS,
    acl,
    address_set,
    on_group,
    on_switch,
    port_group,
    port_match,
)

_HAIRPIN_MASQUERADE = 5
# Requests of virtual machines for their addresses, which OVN answers itself (RFC 2131, RFC 8415).
_LEASES = (
    f"(ip4.dst == {{255.255.255.255, {SERVER}}} && udp.src == 68 && udp.dst == 67) || "
    "(ip6.dst == ff02::1:2 && udp.src == 546 && udp.dst == 547)"
)
# Index of IP blocks among the ACLs of a rule: all blocks are in one; the other ACL is that of selectors or of everyone.
_BLOCKS, _SELECTORS = "-2", "-1"


def render_network_policies(view: NodeNetwork) -> list[Row]:
    """Return the rows of the network's policies on this node; none where they select no workload of it."""
    described = view.plan.get("policies", {}).get(view.name)
    return _Policies(view, described).rows() if described else []


class _Policies:
    def __init__(self, view: NodeNetwork, described: dict) -> None:
        self._view, self._described = view, described
        self._addresses: dict[str, list[str]] = {}
        self._ports: dict[str, list[str]] = {}
        self._machines: set[str] = set()
        for workload, interface in view.workloads:
            if interface["role"] == LOCKED_ROLE:
                continue
            name = f"{workload['namespace']}/{workload['name']}"
            self._addresses.setdefault(name, []).extend(map(plain, interface["addresses"]))
            if view.node in hosting_nodes(workload):
                self._ports.setdefault(name, []).append(interface["port"])
                self._machines |= {interface["port"]} if workload["kind"] == "vm" else set()
        self._groups: dict[str, Row] = {}
        self._used: set[tuple[str, str]] = set()

    def rows(self) -> list[Row]:
        """Return all rows; address sets only those that a rule on this node refers to."""
        rules: list[Row] = []
        isolated: dict[tuple[str, str], set[str]] = {}
        for policy in self._described["policies"]:
            ports = self._local(policy["subjects"])
            if not ports:
                continue
            for direction in policy["isolates"]:
                isolated.setdefault((policy["namespace"], direction), set()).update(ports)
            for rule in policy["rules"]:
                rules += self._rule(policy, rule)
        if not isolated:
            return []
        denials = [row for key, ports in isolated.items() for row in self._default_deny(*key, ports)]
        return [*self._address_sets(), *self._groups.values(), *denials, *rules, *self._always_allowed()]

    def _local(self, selection: str) -> set[str]:
        """Return the ports on this node of a selection."""
        return {port for name in self._described["selections"][selection] for port in self._ports.get(name, ())}

    def _group(self, selection: str) -> Row:
        if selection not in self._groups:
            ports = self._local(selection)
            self._groups[selection] = port_group(self._view, "NetworkPolicy", {"name": selection}, ports)
        return self._groups[selection]

    def _default_deny(self, namespace: str, direction: str, ports: set[str]) -> list[Row]:
        """Isolated ports of a namespace: what no policy allows is dropped.

        Except that neighbours are resolved, and virtual machines obtain their addresses.
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
                )
                for kind, priority, match, action in (
                    ("defaultDeny", DENY_PRIORITY, at_port, DENY),
                    ("arpAllow", ALLOW_PRIORITY, f"{at_port} && (arp || nd)", "allow"),
                    ("dhcpAllow", ALLOW_PRIORITY, f"{at_port} && ({_LEASES})", "allow"),
                )
                if kind != "dhcpAllow" or (direction == EGRESS and not ports.isdisjoint(self._machines))
            ),
        ]  # fmt: skip

    def _rule(self, policy: dict, rule: dict) -> list[Row]:
        match, direction = RuleMatch(self._view, rule), rule["direction"]
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
                        label=f"NP:{name}:{direction}:{rule['index']}",
                    )
                )  # fmt: skip
        if found:
            self._used |= {(SELECTOR_SET, name) for name in rule["peers"]}
            self._used |= {
                (PORT_SET, f"{port['protocol']}/{port['name']}/{number}")
                for port in rule["ports"]
                if "name" in port
                for number in port["numbers"]
            }
        return found

    def _address_sets(self) -> list[Row]:
        members = {SELECTOR_SET: self._described["selections"], PORT_SET: self._described["ports"]}
        return [
            address_set(
                self._view, owner_type, name, version,
                [one for workload in members[owner_type][name] for one in self._addresses.get(workload, ())],
            )
            for owner_type, name in sorted(self._used)
            for version in self._view.network["families"]
        ]  # fmt: skip

    def _always_allowed(self) -> list[Row]:
        """What no policy forbids: connections from the node itself, and of a workload to itself through a service."""
        view, parent = self._view, on_switch(self._view.workload_switch)
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
