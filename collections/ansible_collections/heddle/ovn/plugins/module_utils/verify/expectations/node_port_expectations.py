# SPDX-License-Identifier: Apache-2.0
"""Expected packets to node ports at the addresses of nodes beyond the provider network. Pure.

These are tunnel endpoints, other NICs, and the management port in the default network. The host's kernel translates
what is for these, and what comes in by a NIC keeps its source address with the external traffic policy Local
(`render/host/service_rules.py`).

| sender | addresses |
|---|---|
| the host itself | all; it reaches all endpoints, whatever the policy |
| another host, external hosts | those on a network that they are on; the policy Local leads to endpoints of the node |
| a workload of the network, and of another one | all of its own node, if that has the network; as the host itself |

On each network every host asks one other, at a distance in the order of the plan that the seed chooses: so each is
asked by one, and every host finds out by itself whom it asks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...common.naming import DEFAULT_NETWORK
from ...common.text.some_of import some_of
from ...render.common.entrances import Entrance, further_entrances
from ...render.common.node_network import NodeNetwork, is_on
from .entrance_expectations import EntranceFlows, contains, flow_of
from .external_flow import EXTERNAL_TO_ENTRANCE, HOST_TO_ENTRANCE, OTHER_HOST_TO_ENTRANCE, ExternalFlow
from .nic_networks import MANAGEMENT_PORT, NicNetworks, NodeAddress
from .selection import ALL, MOST_NAMES, Selection
from .service_endpoints import Client, Outcome, Untested


@dataclass(frozen=True, slots=True)
class NodePort:
    """A node port of a Service of a network, and the address of the node that it is at."""

    at: NodeAddress
    network: str
    entrance: Entrance


class NodePortFlows:
    """The expected packets to node ports of a plan beyond the provider network."""

    def __init__(
        self, plan: dict, entrances: EntranceFlows, external: dict[str, list[str]], selection: Selection
    ) -> None:  # fmt: skip
        self._plan, self._entrances, self._external, self._selection = plan, entrances, external, selection
        self._nics = NicNetworks(plan)
        # By node; then also by network, Service and address family.
        self._found: dict[str, list[NodePort]] = {}
        self._by_service: dict[str, dict[tuple[str, str, int], list[NodePort]]] = {}

    def on_provider_network(self) -> dict[str, list[str]]:
        """Return the addresses of external hosts without those on networks of NICs.

        A node has a route of its own to these, by which some of what its workloads send and get would go.
        """
        beyond = {
            one
            for runner in self._external
            for network in self._nics.networks()
            for one in self._external_on(network, runner)
        }
        return {name: [one for one in addresses if one not in beyond] for name, addresses in self._external.items()}

    def from_host(self, node: str) -> Iterator[ExternalFlow | Untested]:
        """Packets of a host to its own node ports."""
        for one in self._of(node):
            client = self._entrances.router(one.network, node, one.entrance.version)
            outcome = self._entrances.outcome(one.network, one.entrance, client, f"hosts reach {one.entrance.service}")
            yield self.flow(HOST_TO_ENTRANCE, node, one, node, outcome)

    def from_other_host(self, runner: str) -> Iterator[ExternalFlow | Untested]:
        """Packets of a host to the node ports of others on the networks of its NICs."""
        for network in self._nics.networks_of(runner):
            others = self._nics.others_on(network, runner)
            if others and self._selection.pairs != ALL:
                others = [self._selection.one_of(others, OTHER_HOST_TO_ENTRANCE, network)]
            own = self._nics.at(network, runner)
            for node in others:
                yield from self._by_nic(OTHER_HOST_TO_ENTRANCE, runner, own, network, node)

    def from_external(self, runner: str, node: str) -> Iterator[ExternalFlow | Untested]:
        """Packets of an external host to the node ports of a node on networks that it has an address in."""
        for network in self._nics.networks_of(node):
            if own := self._external_on(network, runner):
                yield from self._by_nic(EXTERNAL_TO_ENTRANCE, runner, own, network, node)

    def of_service(self, network: str, service: str, version: int, node: str) -> list[NodePort]:
        """Return the node ports of a Service on a node."""
        if node not in self._by_service:
            found = self._by_service[node] = {}
            for one in self._of(node):
                key = one.network, one.entrance.service, one.entrance.version
                found.setdefault(key, []).append(one)
        return self._by_service[node].get((network, service, version), [])

    def flow(
        self, kind: str, runner: str, target: NodePort, node: str, outcome: Outcome, way: str = "", **more
    ) -> ExternalFlow | Untested:  # fmt: skip
        """Return a packet to a node port; its class is about place, topology and policy, and what `way` names."""
        network, entrance, place = target.network, target.entrance, target.at.place
        topology = "default network" if network == DEFAULT_NETWORK else self._plan["networks"][network]["topology"]
        about = f"{place}{f' {way}' if way else ''}, {topology}, {'Local' if entrance.is_local else 'Cluster'}"
        return flow_of(kind, runner, network, entrance, node, outcome, place=place, way=about, **more)

    def untested(self) -> list[str]:
        """Return lines for addresses that are asked by the node itself and its workloads only."""
        alone, beyond = [], []
        for node in self._plan["nodes"]:
            for at in dict.fromkeys(one.at for one in self._of(node) if one.at.place != MANAGEMENT_PORT):
                name = f"{at.address} of {node}"
                if not at.network or not self._nics.others_on(at.network, node):
                    alone.append(name)
                if not any(self._external_on(at.network, runner) for runner in self._external):
                    beyond.append(name)
        lines = []
        if alone:
            lines.append(
                f"{OTHER_HOST_TO_ENTRANCE}: node ports are not tested at addresses on networks that are not known to "
                f"connect their node with another one: {some_of(alone, MOST_NAMES)}"
            )
        if beyond and any(self._external.values()):
            lines.append(
                f"{EXTERNAL_TO_ENTRANCE}: node ports are not tested at addresses on networks in which no external host "
                f"of the inventory has an address: {some_of(beyond, MOST_NAMES)}"
            )
        return lines

    def _by_nic(
        self, kind: str, runner: str, own: tuple[str, ...], by: str, node: str
    ) -> Iterator[ExternalFlow | Untested]:  # fmt: skip
        """Packets by a network on which the sender has some addresses."""
        for one in self._of(node):
            if one.at.network != by:
                continue
            entrance, local = one.entrance, node if one.entrance.is_local else ""
            client = Client(own) if local else self._entrances.router(one.network, node, entrance.version)
            reason = f"{entrance.service} is reached by a node port, {one.at.place}"
            outcome = self._entrances.outcome(one.network, entrance, client, reason, local)
            sources = own if local and outcome.reach and outcome.named else ()
            yield self.flow(kind, runner, one, node, outcome, f"on {by}", sources=sources)

    def _external_on(self, network: str, runner: str) -> tuple[str, ...]:
        """Return the addresses of an external host on a network, if it is a subnet."""
        return tuple(one for one in self._external[runner] if "/" in network and contains(network, one))

    def _of(self, node: str) -> list[NodePort]:
        if node not in self._found:
            known = {one.address: one for one in self._nics.of(node)}
            self._found[node] = [
                NodePort(known[entrance.address], name, entrance)
                for name in self._plan.get("services", {})
                if known and is_on(self._plan["networks"][name], node)
                for entrance in further_entrances(NodeNetwork(self._plan, name, node, []))
            ]
        return self._found[node]
