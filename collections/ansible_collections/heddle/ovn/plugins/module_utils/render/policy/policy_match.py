# SPDX-License-Identifier: Apache-2.0
"""The match of a rule of a network policy: addresses of its peers, protocol and ports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...common.addressing import family
from ..common.node_network import NodeNetwork
from .policy_rows import INGRESS, address_set_name, port_match

# Owner types of the address sets: of selectors, as in ovn-kubernetes, and of named ports.
SELECTOR_SET, PORT_SET = "PodSelector", "NamedPort"
# A network without subnets may have both.
_BOTH = [4, 6]
# ovn-kubernetes's name for a rule without ports.
NO_PROTOCOL = "None"


class RuleMatch:
    """A rule of the plan as matches of one network.

    `port_groups` are names of port groups by named port (`port_keys`), where packets to these go to a port of the
    group; without it they go to an address of an address set.
    """

    def __init__(self, view: NodeNetwork, rule: dict, port_groups: Mapping[str, str] | None = None) -> None:
        self._view, self._rule, self._port_groups = view, rule, port_groups
        self._families = families_of(view)
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
                alternatives += filter(None, (self._named(number, key) for number, key in port_keys(port).items()))
            elif port["port"] is None:
                return protocol
            elif port["end"] and port["end"] != port["port"]:
                alternatives.append(f"{port['port']} <= {protocol}.dst <= {port['end']}")
            else:
                numbers.add(port["port"])
        if numbers:
            alternatives.insert(0, f"{protocol}.dst == {{{', '.join(map(str, sorted(numbers)))}}}")
        return f"{protocol} && {_either(dict.fromkeys(alternatives))}" if alternatives else ""

    def _named(self, number: int, key: str) -> str:
        """Return the match of a named port: its number, at the workloads that have this number under the name."""
        protocol = key.partition("/")[0].lower()
        if self._port_groups is None:
            having = _either(f"ip{version}.dst == {self._set(PORT_SET, key, version)}" for version in self._families)
        elif key in self._port_groups:
            having = port_match(INGRESS, self._port_groups[key])
        else:
            return ""
        return f"{protocol}.dst == {number} && {having}"

    def _block(self, block: dict) -> str:
        field = f"ip{family(block['cidr'])}.{self._field}"
        left_out = f" && {field} != {{{', '.join(sorted(block['except']))}}}" if block["except"] else ""
        return f"{field} == {block['cidr']}{left_out}"

    def _set(self, owner_type: str, name: str, version: int) -> str:
        return f"${address_set_name(self._view, owner_type, name, version)}"


def families_of(view: NodeNetwork) -> list[int]:
    """Return the families of addresses that workloads of a network may have."""
    return view.network["families"] or _BOTH


def port_keys(port: dict) -> dict[int, str]:
    """Return the numbers of a named port of a rule, with the name in the plan of the workloads that have each."""
    return {number: f"{port['protocol']}/{port['name']}/{number}" for number in port["numbers"]}


def _either(parts: Iterable[str]) -> str:
    """Return the parts joined by "or", in parentheses when there are several."""
    parts = list(parts)
    if len(parts) < 2:
        return "".join(parts)
    return "(" + " || ".join(f"({part})" if " && " in part else part for part in parts) + ")"
