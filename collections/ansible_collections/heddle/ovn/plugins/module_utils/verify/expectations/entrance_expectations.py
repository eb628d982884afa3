# SPDX-License-Identifier: Apache-2.0
"""Expected packets to Services from beyond their network: by node ports, external and load balancer addresses. Pure.

Workloads answer at the port of verify, so ports of Services that lead there are tested by which workload answered, and
with which source address it saw the packet. Of TCP ports that lead elsewhere a connection is opened, and an endpoint
that refuses it has answered, too: what listens there is not known. Ports without endpoints refuse.

Policies of the endpoints see what comes in by a gateway router with its join address, unless the external traffic
policy Local keeps the address of the sender (docs/policy.md).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from ...common.addressing import family, plain
from ...render.common.entrances import EXTERNAL, Entrance, entrances, entrances_of
from ...render.common.node_network import NodeNetwork, is_on
from .external_flow import EXTERNAL_TO_ENTRANCE, HOST_TO_ENTRANCE, ExternalFlow
from .service_endpoints import Client, Outcome, ServiceEndpoints, Untested


class EntranceFlows:
    """The expected packets to the entrances of a plan."""

    def __init__(self, plan: dict, endpoints: ServiceEndpoints) -> None:
        self._plan, self._endpoints = plan, endpoints
        self._routers: dict[tuple[str, str, int], Client] = {}

    def from_external(self, runner: str, addresses: list[str], node: str) -> Iterator[ExternalFlow | Untested]:
        """Packets of an external host to the entrances on a node; the policy Local keeps its address."""
        for network, entrance in self._entrances(node):
            own = tuple(one for one in addresses if family(one) == entrance.version)
            if not own or entrance.kind == EXTERNAL or not entrance.is_here:
                continue
            client = Client(own) if entrance.is_local else self.router(network, node, entrance.version)
            reason = f"{entrance.service} is reached by a {entrance.kind}"
            outcome = self.outcome(network, entrance, client, reason, node if entrance.is_local else "", own[0])
            is_seen = entrance.is_local and outcome.reach and outcome.named
            yield flow_of(
                EXTERNAL_TO_ENTRANCE, runner, network, entrance, node, outcome, seen_as=own[0] if is_seen else ""
            )

    def from_host(self, node: str) -> Iterator[ExternalFlow | Untested]:
        """Packets of a host to its own entrances: it reaches all endpoints, whatever the policy."""
        for network, entrance in self._entrances(node):
            client = self.router(network, node, entrance.version)
            outcome = self.outcome(network, entrance, client, f"hosts reach {entrance.service}")
            yield flow_of(HOST_TO_ENTRANCE, node, network, entrance, node, outcome)

    def of_service(self, network: str, service: str, version: int, node: str) -> list[Entrance]:
        """Return the entrances of a Service as a node has them; external addresses are the same on all."""
        found = entrances_of(NodeNetwork(self._plan, network, node, []), service)
        return [one for one in found if one.version == version]

    def holder(self, network: str, entrance: Entrance) -> str:
        """Return the node that has the address of a load balancer."""
        held = self._plan["services"][network][entrance.service]["external"]["load_balancer"]
        return next(one["node"] for one in held if one["address"] == entrance.address)

    def router(self, network: str, node: str, version: int) -> Client:
        """Return a network's gateway router on a node as endpoints see it, and what it has translated."""
        key = network, node, version
        if key not in self._routers:
            own = map(plain, NodeNetwork(self._plan, network, node, []).join_interfaces())
            self._routers[key] = Client(tuple(one for one in own if family(one) == version))
        return self._routers[key]

    def outcome(
        self, network: str, entrance: Entrance, client: Client, reason: str, node: str = "", sender: str = ""
    ) -> Outcome:  # fmt: skip
        """Return what a client gets of an entrance, with `node` of the endpoints on that node.

        `sender` is the address that source ranges decide about, "" where they do not.
        """
        kept_out = ""
        if sender and entrance.sources and not any(contains(one, sender) for one in entrance.sources):
            kept_out = f"{sender} is in no source range of {entrance.service}"
        return self._endpoints.outcome(network, entrance.port, entrance.version, client, reason, node, kept_out)

    def _entrances(self, node: str) -> Iterator[tuple[str, Entrance]]:
        for name in self._plan.get("services", {}):
            if is_on(self._plan["networks"][name], node):
                for entrance in entrances(NodeNetwork(self._plan, name, node, [])):
                    yield name, entrance


def flow_of(
    kind: str, runner: str, network: str, entrance: Entrance, node: str, outcome: Outcome, *, workload: str = "",
    place: str = "", **more,
) -> ExternalFlow | Untested:  # fmt: skip
    """Return the packet of a workload, or of the runner itself, to an entrance by way of a node.

    `place` is what the address is on, where that is not the provider network. `more` are fields of the result.
    """
    if outcome.untested:
        what = f"{entrance.service} {entrance.protocol} {entrance.port['port']} of {network}"
        return Untested(kind, outcome.untested, what)
    where = f" at {place}" if place else ""
    target = f"{entrance.service} {entrance.kind} {entrance.protocol} {entrance.number}{where} of {node}"
    return ExternalFlow(
        kind, runner, workload or runner, target, workload, "", entrance.version, entrance.address, outcome.reach,
        outcome.reason, protocol=entrance.protocol, port=entrance.number, through=node,
        responders=outcome.responders, named=outcome.named, refused=outcome.reach and not outcome.responders,
        denied=outcome.denied, **more,
    )  # fmt: skip


def contains(subnet: str, address: str) -> bool:
    """Return whether an address is in a subnet."""
    return ipaddress.ip_address(address) in ipaddress.ip_network(subnet)
