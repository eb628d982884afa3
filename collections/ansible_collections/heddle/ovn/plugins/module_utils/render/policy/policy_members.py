# SPDX-License-Identifier: Apache-2.0
"""The workloads of one network that policies select: their ports on this node, and their addresses on all nodes."""

from __future__ import annotations

from ...common.addressing import plain
from ...common.naming import LOCKED_ROLE
from ...types.ovsdb_row import Row
from ..common.hosting_nodes import hosting_nodes
from ..common.node_network import NodeNetwork
from .policy_match import PORT_SET, SELECTOR_SET, RuleMatch
from .policy_rows import address_set


class PolicyMembers:
    """Members by selection, and the address sets of those that rules on this node refer to."""

    def __init__(self, view: NodeNetwork, described: dict) -> None:
        self.view, self._described = view, described
        # Ports of virtual machines on this node.
        self.machines: set[str] = set()
        self._addresses: dict[str, list[str]] = {}
        self._ports: dict[str, list[str]] = {}
        self._used: set[tuple[str, str]] = set()
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
        return RuleMatch(self.view, rule)

    def use(self, rule: dict) -> None:
        """Note the address sets that a rule refers to."""
        self._used |= {(SELECTOR_SET, name) for name in rule["peers"]}
        self._used |= {
            (PORT_SET, f"{port['protocol']}/{port['name']}/{number}")
            for port in rule["ports"]
            if "name" in port
            for number in port["numbers"]
        }

    def address_sets(self) -> list[Row]:
        """Return the address sets that rules refer to."""
        members = {SELECTOR_SET: self._described["selections"], PORT_SET: self._described["ports"]}
        return [
            address_set(
                self.view, owner_type, name, version,
                [one for workload in members[owner_type][name] for one in self._addresses.get(workload, ())],
            )
            for owner_type, name in sorted(self._used)
            for version in self.view.network["families"]
        ]  # fmt: skip
