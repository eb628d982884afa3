# SPDX-License-Identifier: Apache-2.0
"""The workloads of one network that policies select: their ports on this node, and their addresses on all nodes."""

from __future__ import annotations

from ...common.addressing import plain
from ...common.naming import LOCKED_ROLE
from ...types.ovsdb_row import Row
from ..common.hosting_nodes import hosting_nodes
from ..common.node_network import NodeNetwork
from .policy_match import PORT_SET, SELECTOR_SET, RuleMatch, families_of, port_keys
from .policy_rows import INGRESS, address_set, port_group


class PolicyMembers:
    """Members by selection, and the sets of those that rules on this node refer to.

    Of addresses, except for the named ports of what workloads receive on a network without IPAM: many addresses are
    not known there, and the ports of these workloads are on this node.
    """

    def __init__(self, view: NodeNetwork, described: dict) -> None:
        self.view, self._described = view, described
        # Ports of virtual machines on this node.
        self.machines: set[str] = set()
        self._addresses: dict[str, list[str]] = {}
        self._ports: dict[str, list[str]] = {}
        self._used: set[tuple[str, str]] = set()
        self._port_groups: dict[str, Row] = {}
        for workload, interface in view.workloads:
            if interface["role"] == LOCKED_ROLE:
                continue
            name = f"{workload['namespace']}/{workload['name']}"
            self._addresses.setdefault(name, []).extend(map(plain, interface["addresses"]))
            if view.node in hosting_nodes(workload):
                self._ports.setdefault(name, []).append(interface["port"])
                self.machines |= {interface["port"]} if workload["kind"] == "vm" else set()

    def local(self, selection: str) -> set[str]:
        """Return the ports on this node of a selection."""
        return {port for name in self._described["selections"][selection] for port in self._ports.get(name, ())}

    def match(self, rule: dict) -> RuleMatch:
        """Return the match of a rule."""
        groups = self._groups(rule)
        return RuleMatch(self.view, rule, None if groups is None else {key: row.key for key, row in groups.items()})

    def use(self, rule: dict) -> None:
        """Note the sets that a rule refers to."""
        self._used |= {(SELECTOR_SET, name) for name in rule["peers"]}
        groups = self._groups(rule)
        if groups is None:
            self._used |= {(PORT_SET, key) for key in _named_ports(rule)}
        else:
            self._port_groups |= groups

    def _groups(self, rule: dict) -> dict[str, Row] | None:
        """Return the port groups of a rule's named ports that workloads of this node have; None for address sets."""
        if self.view.network["families"] or rule["direction"] != INGRESS:
            return None
        ports = {
            key: [port for workload in self._described["ports"][key] for port in self._ports.get(workload, ())]
            for key in _named_ports(rule)
        }
        return {key: port_group(self.view, PORT_SET, {"name": key}, having) for key, having in ports.items() if having}

    def sets(self) -> list[Row]:
        """Return the address sets and the port groups of named ports that rules refer to."""
        members = {SELECTOR_SET: self._described["selections"], PORT_SET: self._described["ports"]}
        address_sets = [
            address_set(
                self.view, owner_type, name, version,
                [one for workload in members[owner_type][name] for one in self._addresses.get(workload, ())],
            )
            for owner_type, name in sorted(self._used)
            for version in families_of(self.view)
        ]  # fmt: skip
        return [*address_sets, *self._port_groups.values()]


def _named_ports(rule: dict) -> list[str]:
    """Return the names in the plan of the workloads that have the named ports of a rule."""
    return [key for port in rule["ports"] if "name" in port for key in port_keys(port).values()]
