# SPDX-License-Identifier: Apache-2.0
"""The match of a rule of a network policy: addresses of its peers, protocol and ports."""

from __future__ import annotations

from collections.abc import Iterable

from ...common.addressing import family
from ..common.node_network import NodeNetwork
from .policy_rows import INGRESS, address_set_name

# Owner types of the address sets: of selectors, as in ovn-kubernetes, and of named ports.
SELECTOR_SET, PORT_SET = "PodSelector", "NamedPort"
# ovn-kubernetes's name for a rule without ports.
NO_PROTOCOL = "None"


class RuleMatch:
    """A rule of the plan as matches of one network."""

    def __init__(self, view: NodeNetwork, rule: dict) -> None:
        self._view, self._rule = view, rule
        # A network without subnets may have both.
        self._families = view.network["families"] or [4, 6]
        self._field = "src" if rule["direction"] == INGRESS else "dst"

    def peers(self) -> str:
        """Return the match of everyone, or of the workloads that the rule selects; "" for a rule without selectors."""
        if self._rule["everyone"]:
            return _either(f"ip{version}" for version in self._families)
        if not self._rule["peers"]:
            return ""
        return _either(
            f"ip{version}.{self._field} == "
            f"{{{', '.join(sorted(self._set(SELECTOR_SET, name, version) for name in self._rule['peers']))}}}"
            for version in self._families
        )

    def blocks(self) -> str:
        """Return the match of the rule's IP blocks, "" without any of the network's families."""
        return _either(
            self._block(block) for block in self._rule["blocks"] if family(block["cidr"]) in self._families
        )  # fmt: skip

    def peers_or_blocks(self) -> str:
        """Return the match of all peers, "" without any that the network can have."""
        return _either(filter(None, (self.peers(), self.blocks())))

    def transports(self) -> dict[str, str]:
        """Return the match by protocol; `None` stands for a rule without ports, with an empty match.

        A protocol of whose named ports no workload has any is left out: it allows nothing.
        """
        if not self._rule["ports"]:
            return {NO_PROTOCOL: ""}
        by_protocol: dict[str, list[dict]] = {}
        for port in self._rule["ports"]:
            by_protocol.setdefault(port["protocol"], []).append(port)
        found = {protocol: self._transport(protocol.lower(), ports) for protocol, ports in by_protocol.items()}
        return {protocol: match for protocol, match in found.items() if match}

    def _transport(self, protocol: str, ports: list[dict]) -> str:
        numbers, alternatives = set(), []
        for port in ports:
            if "name" in port:
                alternatives += [self._named(protocol, port["name"], number) for number in port["numbers"]]
            elif port["port"] is None:
                return protocol
            elif port["end"] and port["end"] != port["port"]:
                alternatives.append(f"{port['port']} <= {protocol}.dst <= {port['end']}")
            else:
                numbers.add(port["port"])
        if numbers:
            alternatives.insert(0, f"{protocol}.dst == {{{', '.join(map(str, sorted(numbers)))}}}")
        return f"{protocol} && {_either(dict.fromkeys(alternatives))}" if alternatives else ""

    def _named(self, protocol: str, name: str, number: int) -> str:
        """Return the match of a named port: its number, at the workloads that have this number under the name."""
        key = f"{protocol.upper()}/{name}/{number}"
        having = _either(f"ip{version}.dst == {self._set(PORT_SET, key, version)}" for version in self._families)
        return f"{protocol}.dst == {number} && {having}"

    def _block(self, block: dict) -> str:
        field = f"ip{family(block['cidr'])}.{self._field}"
        left_out = f" && {field} != {{{', '.join(sorted(block['except']))}}}" if block["except"] else ""
        return f"{field} == {block['cidr']}{left_out}"

    def _set(self, owner_type: str, name: str, version: int) -> str:
        return f"${address_set_name(self._view, owner_type, name, version)}"


def _either(parts: Iterable[str]) -> str:
    """Return the parts joined by "or", in parentheses when there are several."""
    parts = list(parts)
    if len(parts) < 2:
        return "".join(parts)
    return "(" + " || ".join(f"({part})" if " && " in part else part for part in parts) + ")"
