# SPDX-License-Identifier: Apache-2.0
"""Which workloads send to Services by node ports, external and load balancer addresses, and what is expected. Pure.

For each Service with such entrances and each family one workload of its own network, one of another network, and one
that leaves with an EgressIP, which the seed chooses: the number of packets grows with Services.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...common.addressing import family, is_within, plain
from ...common.naming import DEFAULT_NETWORK, TRANSIT_ROUTER
from ...render.common.entrances import EXTERNAL, LOAD_BALANCER, NODE_PORT, Entrance
from ...render.common.node_network import is_mesh, is_on
from ...render.common.provider import provider_of
from ...render.host.mesh_gateway import why_no_gateway
from .egress_addresses import EgressAddresses
from .entrance_expectations import EntranceFlows, flow_of
from .expectation import default_elsewhere
from .external_flow import WORKLOAD_TO_ENTRANCE, ExternalFlow
from .firewall_permissions import FirewallPermissions
from .node_port_expectations import NodePortFlows
from .others import Others
from .policy_permissions import EGRESS, INGRESS, PolicyPermissions
from .selection import Selection
from .service_endpoints import Client, Outcome, ServiceEndpoints, Untested

_RESTRICTED = "firewalls, egress addresses or other default routes decide about what all of these send"
FROM_OWN_NETWORK = f"Services are not tested from workloads of their network, as {_RESTRICTED}"
FROM_OTHER_NETWORKS = f"Services are not tested from workloads of other networks, as {_RESTRICTED}"


class EntranceClients:
    """The packets of workloads to the entrances of a plan of workloads that can send for verify."""

    def __init__(
        self,
        plan: dict,
        ways: tuple[EntranceFlows, NodePortFlows],
        endpoints: ServiceEndpoints,
        permissions: tuple[PolicyPermissions, FirewallPermissions, EgressAddresses],
        selection: Selection,
    ) -> None:
        self._plan, self._endpoints, self._selection = plan, endpoints, selection
        self._entrances, self._node_ports = ways
        self._policies, self._firewalls, self._egress = permissions
        # By family: the primary networks of workloads with external connectivity, and by such a network those that are
        # able to ask, as their node or with an EgressIP.
        self._leaving: dict[int, set[str]] = {4: set(), 6: set()}
        self._by_network: dict[int, dict[str, list[str]]] = {4: {}, 6: {}}
        self._by_egress_ip: dict[int, dict[str, list[str]]] = {4: {}, 6: {}}
        for name, workload in sorted(plan["workloads"].items()):
            primary = next((one["network"] for one in workload["interfaces"] if one["role"] == "primary"), "")
            for version, networks in self._by_network.items():
                if not primary or not self._leaves(name, primary, version):
                    continue
                self._leaving[version].add(primary)
                if not self._may_ask(name, primary, version):
                    continue
                if not self._egress.of(name, version):
                    networks.setdefault(primary, []).append(name)
                elif self._egress.holder(name, version):
                    self._by_egress_ip[version].setdefault(primary, []).append(name)
        self._old = [
            name
            for name, one in plan["nodes"].items()
            if one.get("layer2_topology_version", TRANSIT_ROUTER) != TRANSIT_ROUTER
        ]
        self._unasked: list[Untested] = []
        self._chosen = list(self._choices())

    def flows(self, node: str) -> Iterator[ExternalFlow | Untested]:
        """Packets of the chosen workloads that are on a node."""
        for one, name, network in self._chosen:
            if self._plan["workloads"][name]["node"] != node:
                continue
            if holder := self._egress.holder(name, one[2]):
                yield from self._with_egress_ip(one, name, network, holder)
            else:
                yield from self._flows(one, name, network)

    def unasked(self) -> list[Untested]:
        """Return the Services that no workload of their network, or of others, asks."""
        return self._unasked

    def untested(self) -> list[str]:
        """Return lines for what is left out: without VRFs, and in the Layer2 topology without a transit router."""
        lines = [
            f"{WORKLOAD_TO_ENTRANCE}: Services of Layer2 networks with endpoints on other nodes are not tested from "
            f"other networks by way of {', '.join(self._old)}, which have no transit router: replies go to the next "
            "hop, which has to forward them; node ports of their own node are not tested from workloads of Layer2 "
            "networks there, whose gateway router drops what is for the node's address"
        ]
        lines = lines if self._chosen and self._old else []
        providers = {name: provider_of(one) for name, one in self._plan["nodes"].items()}
        flat = [name for name, one in providers.items() if self._chosen and one and not one.vrf]
        if not flat:
            return lines
        return [
            *lines,
            f"{WORKLOAD_TO_ENTRANCE}: node ports of their own node are not tested from other networks on "
            f"{', '.join(flat)}: these are not reached without VRFs",
        ]

    def _choices(self) -> Iterator[tuple[tuple[str, str, int], str, str]]:
        """Return Service (network, name, family), workload and its network."""
        asking = [
            (role, version, self._preferred(by_network[version]))
            for by_network, role in ((self._by_network, "other"), (self._by_egress_ip, "with EgressIP"))
            for version in (4, 6)
        ]
        preferred = {version: self._preferred(networks) for version, networks in self._by_network.items()}
        for where, services in self._plan.get("services", {}).items():
            for service, described in services.items():
                for version in sorted(
                    {family(one) for one in described["addresses"]} if "external" in described else ()
                ):
                    key, seed = (where, service, version), (WORKLOAD_TO_ENTRANCE, service, str(version))
                    if own := next((names[where] for names, _others in preferred[version] if where in names), []):
                        yield key, self._own(own, key, seed), where
                    self._note(key, is_own=True, is_asked=bool(own))
                    for role, its_version, candidates in asking:
                        if its_version != version:
                            continue
                        names, others = next((one for one in candidates if one[1].count(where)), ({}, None))
                        if names:
                            network = others.at(where, self._selection.number(*seed, "network"))
                            yield key, self._selection.one_of(names[network], *seed, role), network
                        if role == "other":
                            self._note(key, is_own=False, is_asked=bool(names))

    def _preferred(self, networks: dict[str, list[str]]) -> list[tuple[dict[str, list[str]], Others]]:
        """Return the workloads by network: first those alone about whose packets no policy decides, then all."""
        free = {
            network: found
            for network, names in networks.items()
            if (found := [name for name in names if not self._endpoints.is_decided(EGRESS, network, name)])
        }
        return [(names, Others(names)) for names in (free, networks)]

    def _own(self, names: list[str], key: tuple[str, str, int], seed: tuple[str, ...]) -> str:
        """Return a workload of a Service's network, none of its endpoints where policies decide about these."""
        where, service, version = key
        found = self._selection.one_of(names, *seed, "own")
        if not any(self._endpoints.is_decided(one, where, found) for one in (INGRESS, EGRESS)):
            return found
        ports = self._plan["services"][where][service]["ports"]
        behind = {name for port in ports for name in self._endpoints.behind(where, port, version)}
        others = [name for name in names if name not in behind] if found in behind else []
        return self._selection.one_of(others, *seed, "own") if others else found

    def _note(self, key: tuple[str, str, int], *, is_own: bool, is_asked: bool) -> None:
        """Note a Service that none of the workloads asks that have a way to it."""
        where, service, version = key
        there = where in self._leaving[version] if is_own else bool(self._leaving[version] - {where})
        if there and not is_asked:
            reason = FROM_OWN_NETWORK if is_own else FROM_OTHER_NETWORKS
            self._unasked.append(Untested(WORKLOAD_TO_ENTRANCE, reason, f"{service} of {where}"))

    def _leaves(self, name: str, network: str, version: int) -> bool:
        """Return whether a workload has external connectivity."""
        provider, described = provider_of(self._plan["nodes"][self._node(name)]), self._plan["networks"][network]
        return bool(
            provider
            and provider.address(version)
            and version in described["families"]
            and not is_mesh(described)
            and not why_no_gateway(self._plan, network, provider)
        )

    def _may_ask(self, name: str, network: str, version: int) -> bool:
        """Return whether nothing but policies and the path to a Service decides about what a workload gets of it."""
        return not (
            version in default_elsewhere(self._plan["workloads"][name])
            or self._firewalls.restricts(network, name)
            or self._egress.has_table(name)
            or self._egress.by_nic(name, version)
        )

    def _flows(self, key: tuple[str, str, int], name: str, network: str) -> Iterator[ExternalFlow | Untested]:
        (where, service, version), node = key, self._node(name)
        is_own, is_here = where == network, is_on(self._plan["networks"][where], node)
        through = node if is_here and (is_own or self._is_answered_by_own_host(name, network)) else ""
        nodes = [one for one, described in self._plan["nodes"].items()
                 if one != node and provider_of(described) and is_on(self._plan["networks"][where], one)]  # fmt: skip
        through = through or (self._selection.one_of(nodes, service, name) if nodes else "")
        for one in self._entrances.of_service(where, service, version, through) if through else ():
            if (one.kind == EXTERNAL and not is_here) or (
                one.kind == LOAD_BALANCER and not self._entrances.holder(where, one)
            ):
                continue
            accepting = node if is_here and one.kind == EXTERNAL else through
            outcome, holder = self._outcome(one, where, name, network, accepting), self._holder(where, one, accepting)
            if is_own or not self._is_answered_by_next_hop(where, node, holder, outcome):
                yield flow_of(WORKLOAD_TO_ENTRANCE, node, where, one, accepting, outcome, workload=name)
        for one in self._node_ports.of_service(where, service, version, node) if is_here else ():
            if self._leads_to_node(name, one.at.address, network):
                outcome = self._outcome(one.entrance, where, name, network, node)
                way = "from its network" if is_own else "from another network"
                yield self._node_ports.flow(WORKLOAD_TO_ENTRANCE, node, one, node, outcome, way, workload=name)

    def _leads_to_node(self, name: str, address: str, network: str) -> bool:
        """Return whether what a workload sends to an address of its node leaves by its primary network.

        The default network, where others are locked, has the management port. A user-defined one may have the same
        subnets as a NIC, and its workloads would reach each other there.
        """
        networks = {one["network"] for one in self._plan["workloads"][name]["interfaces"]} - {DEFAULT_NETWORK}
        networks |= {DEFAULT_NETWORK} if network != DEFAULT_NETWORK else set()
        return not any(is_within(address, self._plan["networks"][one]["subnets"]) for one in networks)

    def _with_egress_ip(
        self, key: tuple[str, str, int], name: str, network: str, egress_node: str
    ) -> Iterator[ExternalFlow | Untested]:
        """Packets to load balancer addresses; they leave by the node that holds the EgressIP.

        Those with source ranges are left out: what the workload counts as depends on which node announces them.
        """
        where, service, version = key
        if self._old:
            return
        node = next((one for one in self._plan["nodes"] if is_on(self._plan["networks"][where], one)), "")
        for one in self._entrances.of_service(where, service, version, node) if node else ():
            holder = self._entrances.holder(where, one) if one.kind == LOAD_BALANCER and not one.sources else ""
            if not holder:
                continue
            is_local = one.is_local and holder != egress_node
            client = self._entrances.router(where, holder, version)
            if is_local:
                client = Client(tuple(self._egress.of(name, version)))
            reason = f"{name} reaches {one.service} with its EgressIP"
            outcome = self._entrances.outcome(where, one, client, reason, holder if is_local else "")
            outcome = self._as_sent(one, name, network, outcome)
            yield flow_of(WORKLOAD_TO_ENTRANCE, self._node(name), where, one, holder, outcome, workload=name)

    def _outcome(self, one: Entrance, where: str, name: str, network: str, through: str) -> Outcome:
        """`through`: the node whose node port it is, or which accepts the external address."""
        node, version, is_own = self._node(name), one.version, where == network
        # Of the management port in the default network's subnets its switch knows no Service: the host has the address.
        is_own = is_own and not is_within(one.address, self._plan["networks"][where]["subnets"])
        provider, holder = provider_of(self._plan["nodes"][node]), self._holder(where, one, through)
        # Its own network's switch, and the host, lead to all endpoints; another host follows the policy.
        is_local = one.is_local and not is_own and holder != node
        if is_own:
            client = self._endpoints.client(network, name, version)
        elif is_local:
            client = Client(tuple(plain(item) for item in provider.addresses if family(item) == version))
        else:
            client = self._entrances.router(where, holder, version)
        reason, sender = f"workloads of {network} reach {one.service} by its {one.kind}", provider.address(version)
        local = holder if is_local else ""
        outcome = self._entrances.outcome(where, one, client, reason, local, "" if is_own else sender)
        return outcome if is_own else self._as_sent(one, name, network, outcome)

    def _as_sent(self, one: Entrance, name: str, network: str, outcome: Outcome) -> Outcome:
        """Return the outcome for a workload of another network, whose policies see the address of the entrance."""
        if outcome.reach and self._endpoints.is_decided(EGRESS, network, name):
            refusal = self._policies.refusal(network, name, "", ("", one.address), one.protocol, one.number)
            if refusal:
                return Outcome(False, refusal, outcome.responders, outcome.named, denied=True)
        return outcome

    def _holder(self, where: str, one: Entrance, through: str) -> str:
        return through if one.kind in (NODE_PORT, EXTERNAL) else self._entrances.holder(where, one)

    def _is_answered_by_next_hop(self, where: str, node: str, holder: str, outcome: Outcome) -> bool:
        """Whether replies to a node leave another one by its default route.

        Without a transit router the policies of the gateway router mark replies of the node's own workloads only, and
        it has no route to the provider subnet.
        """
        is_old = holder in self._old and self._plan["networks"][where]["topology"] == "Layer2"
        return is_old and holder != node and any(self._node(one) != holder for one in outcome.responders)

    def _is_answered_by_own_host(self, name: str, network: str) -> bool:
        """Whether a workload reaches node ports of its own host: by its VRF, if it is not of the default network.

        A gateway router on a Layer2 switch drops packets to the node's address, which it has itself, before the policy
        that leads them to the management port.
        """
        node = self._node(name)
        is_old = node in self._old and self._plan["networks"][network]["topology"] == "Layer2"
        return network == DEFAULT_NETWORK or (provider_of(self._plan["nodes"][node]).vrf and not is_old)

    def _node(self, name: str) -> str:
        return self._plan["workloads"][name]["node"]
