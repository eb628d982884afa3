# SPDX-License-Identifier: Apache-2.0
"""The addresses of nodes with node ports besides those on the provider network, and who is on the same network. Pure.

The plan has the networks of NICs, by the prefix lengths of addresses. A network connects the nodes that have different
addresses in one subnet. Where two nodes have the same address, each has such a network of its own, as with bridges for
virtual machines, and where the provider network overlaps it, routes decide which of the two packets take: such networks
connect no hosts here. A tunnel endpoint whose prefix length the plan does not have, as it is on a bridge, is on a
network with all others of its family.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ...common.addressing import family, is_within, overlapping, plain, prefix_length, subnet_of
from ...common.naming import DEFAULT_NETWORK
from ...render.common.entrances import node_port_addresses
from ...render.common.node_network import NodeNetwork, is_on
from ...render.common.provider import provider_of

TUNNEL_ENDPOINT, MANAGEMENT_PORT, NIC = "tunnel endpoint", "management port", "other NIC"


@dataclass(frozen=True, slots=True)
class NodeAddress:
    """An address of a node, and what it is on; `network` is "" where it is not known to connect nodes."""

    address: str
    place: str
    network: str


class NicNetworks:
    """The addresses of a plan's nodes with node ports besides those on the provider network."""

    def __init__(self, plan: dict) -> None:
        self._plan = plan
        providers = {
            subnet_of(one) for node in plan["nodes"].values() for one in getattr(provider_of(node), "addresses", ())
        }
        # By network and node.
        self._on: dict[str, dict[str, list[str]]] = {}
        for name, node in plan["nodes"].items():
            for address in _of_nics(node):
                self._on.setdefault(subnet_of(address), {}).setdefault(name, []).append(plain(address))
        self._on = {
            network: members
            for network, members in self._on.items()
            if _are_different(members.values()) and not any(overlapping(network, one) for one in providers)
        }
        # So that each address is looked for in few subnets, however many there are.
        lengths = sorted({(family(one), prefix_length(one)) for one in self._on}, reverse=True)
        for name, node in plan["nodes"].items():
            for address in sorted(set(node["encap_ips"]) - set(map(plain, _of_nics(node)))):
                if not is_within(address, providers):
                    around = (subnet_of(f"{address}/{one}") for version, one in lengths if version == family(address))
                    near = next((subnet for subnet in around if subnet in self._on), "")
                    members = self._on.setdefault(near or f"tunnels over IPv{family(address)}", {})
                    members.setdefault(name, []).append(address)
        # By node, and by node and address.
        self._of_node: dict[str, list[str]] = {}
        self._of_address: dict[tuple[str, str], str] = {}
        for network, members in self._on.items():
            for name, addresses in members.items():
                self._of_node.setdefault(name, []).append(network)
                for address in addresses:
                    self._of_address.setdefault((name, address), network)

    def of(self, node: str) -> list[NodeAddress]:
        """Return those of a node; none without a provider network."""
        described, management = self._plan["nodes"][node], []
        provider = provider_of(described)
        if provider is None:
            return []
        own = set(map(plain, provider.addresses))
        if is_on(self._plan["networks"][DEFAULT_NETWORK], node):
            management = NodeNetwork(self._plan, DEFAULT_NETWORK, node, []).management_addresses()
        return [
            NodeAddress(
                address, _place(address, described["encap_ips"], management), self._of_address.get((node, address), "")
            )
            for address in node_port_addresses(self._plan, node)
            if address not in own
        ]

    def others_on(self, network: str, node: str) -> list[str]:
        """Return the other nodes on a network, in the order of the plan after this one, from the first one on again."""
        members = list(self._on.get(network, ()))
        place = members.index(node)
        return members[place + 1 :] + members[:place]

    def at(self, network: str, node: str) -> tuple[str, ...]:
        """Return what a node has on a network: one of these it sends with there."""
        return tuple(self._on.get(network, {}).get(node, ()))

    def networks(self) -> list[str]:
        """Return all networks: subnets, and the others that tunnel endpoints are on."""
        return list(self._on)

    def networks_of(self, node: str) -> list[str]:
        """Return the networks that a node is on."""
        return self._of_node.get(node, [])


def _of_nics(node: dict) -> list[str]:
    return [one for addresses in node.get("other_addresses", {}).values() for one in addresses]


def _are_different(found: Iterable[list[str]]) -> bool:
    addresses = [one for members in found for one in members]
    return len(set(addresses)) == len(addresses)


def _place(address: str, tunnel_endpoints: list[str], management: list[str]) -> str:
    if address in tunnel_endpoints:
        return TUNNEL_ENDPOINT
    return MANAGEMENT_PORT if address in management else NIC
