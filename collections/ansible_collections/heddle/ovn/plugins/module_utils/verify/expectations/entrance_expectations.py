# SPDX-License-Identifier: Apache-2.0
"""Expected packets to Services from beyond their network: by node ports, external and load balancer addresses. Pure.

Workloads answer at the port of verify, so ports of Services that lead there are tested by which workload answered, and
with which source address it saw the packet. Of TCP ports that lead elsewhere a connection is opened, and an endpoint
that refuses it has answered, too: what listens there is not known. Ports without endpoints refuse.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from ...common.addressing import family, plain
from ...common.naming import LOCKED_ROLE
from ...render.common.entrances import EXTERNAL, Entrance, entrances, entrances_of
from ...render.common.node_network import NodeNetwork, is_on
from ..probing.datagram import PORT
from .external_flow import EXTERNAL_TO_ENTRANCE, HOST_TO_ENTRANCE, ExternalFlow
from .policy_permissions import INGRESS, PolicyPermissions


class EntranceFlows:
    """The expected packets to the entrances of a plan."""

    def __init__(self, plan: dict, policies: PolicyPermissions) -> None:
        self._plan, self._policies = plan, policies
        self._workloads = {
            (interface["network"], plain(address)): name
            for name, workload in plan["workloads"].items()
            if workload["kind"] == "netns"
            for interface in workload["interfaces"]
            if interface["role"] != LOCKED_ROLE
            for address in interface["addresses"]
        }

    def from_external(self, runner: str, addresses: list[str], node: str) -> Iterator[ExternalFlow]:
        """Packets of an external host to the entrances on a node; the policy Local keeps its address."""
        for network, entrance in self._tested(node):
            own = next((one for one in addresses if family(one) == entrance.version), None)
            if own is None or entrance.kind == EXTERNAL or not entrance.is_here:
                continue
            responders = self.responders(network, entrance, node if entrance.is_local else "")
            result = True, f"{entrance.service} is reached by a {entrance.kind}"
            if not responders:
                result = True, f"{entrance.service} has no endpoint there and refuses"
            if entrance.sources and not any(contains(one, own) for one in entrance.sources):
                result = False, f"{own} is in no source range of {entrance.service}"
            is_seen = entrance.is_local and result[0] and leads_to_verify(entrance.port, entrance.version)
            seen_as = own if is_seen and responders else ""
            yield flow_of(EXTERNAL_TO_ENTRANCE, runner, entrance, node, result, responders, seen_as)

    def from_host(self, node: str) -> Iterator[ExternalFlow]:
        """Packets of a host to its own entrances: it reaches all endpoints, whatever the policy."""
        for network, entrance in self._tested(node):
            responders = self.responders(network, entrance, "")
            result = True, f"hosts reach {entrance.service}" if responders else f"{entrance.service} has no endpoints"
            yield flow_of(HOST_TO_ENTRANCE, node, entrance, node, result, responders)

    def of_service(self, network: str, service: str, version: int, node: str) -> list[Entrance]:
        """Return the tested entrances of a Service as a node has them; external addresses are the same on all."""
        found = entrances_of(NodeNetwork(self._plan, network, node, []), service)
        return [one for one in found if one.version == version and self._is_able(network, one)]

    def holder(self, network: str, entrance: Entrance) -> str:
        """Return the node that has the address of a load balancer."""
        held = self._plan["services"][network][entrance.service]["external"]["load_balancer"]
        return next(one["node"] for one in held if one["address"] == entrance.address)

    def _tested(self, node: str) -> Iterator[tuple[str, Entrance]]:
        """Entrances to workloads that answer verify and whose policies do not restrict who may, and to none."""
        for name in self._plan.get("services", {}):
            if not is_on(self._plan["networks"][name], node):
                continue
            for entrance in entrances(NodeNetwork(self._plan, name, node, [])):
                if self._is_able(name, entrance):
                    yield name, entrance

    def _is_able(self, network: str, entrance: Entrance) -> bool:
        # The network's gateway routers have no addresses of other families.
        if entrance.version not in self._plan["networks"][network]["families"]:
            return False
        if not any(family(one["address"]) == entrance.version for one in entrance.port["endpoints"]):
            return entrance.protocol != "SCTP"
        by_protocol = {"UDP": self.answering, "TCP": self._behind}
        find = by_protocol.get(entrance.protocol)
        names = find(network, entrance.port, entrance.version) if find else ()
        return bool(names) and not any(self._policies.isolates(INGRESS, network, one) for one in names)

    def answering(self, network: str, port: dict, version: int) -> tuple[str, ...]:
        """Return the workloads behind a port of a Service, none unless all its endpoints answer verify."""
        return self._behind(network, port, version) if leads_to_verify(port, version) else ()

    def _behind(self, network: str, port: dict, version: int) -> tuple[str, ...]:
        """Return the workloads behind a port of a Service, none unless all its endpoints are workloads."""
        ends = [one["address"] for one in port["endpoints"] if family(one["address"]) == version]
        names = [self._workloads.get((network, one)) for one in ends]
        return tuple(names) if all(names) else ()

    def responders(self, network: str, entrance: Entrance, node: str) -> tuple[str, ...]:
        """Return the workloads that may answer, with `node` those on it only."""
        return tuple(
            self._workloads[network, one["address"]]
            for one in entrance.port["endpoints"]
            if family(one["address"]) == entrance.version and node in ("", one["node"])
        )


def flow_of(
    kind: str, runner: str, entrance: Entrance, node: str, result: tuple[bool, str], responders: tuple[str, ...],
    seen_as: str = "", workload: str = "",
) -> ExternalFlow:  # fmt: skip
    """Return the packet of a workload, or of the runner itself, to an entrance by way of a node.

    `result` is whether it is answered, where there are no endpoints by a refusal, and why.
    """
    target = f"{entrance.service} {entrance.kind} {entrance.protocol} {entrance.number} of {node}"
    return ExternalFlow(
        kind, runner, workload or runner, target, workload, "", entrance.version, entrance.address, *result,
        seen_as=seen_as, protocol=entrance.protocol, port=entrance.number, through=node, responders=responders,
        named=bool(responders) and leads_to_verify(entrance.port, entrance.version),
        refused=result[0] and not responders,
    )  # fmt: skip


def leads_to_verify(port: dict, version: int) -> bool:
    """Return whether all endpoints of a Service's port are at the port of verify; False without any."""
    ends = [one["port"] for one in port["endpoints"] if family(one["address"]) == version]
    return bool(ends) and set(ends) == {PORT}


def contains(subnet: str, address: str) -> bool:
    """Return whether an address is in a subnet."""
    return ipaddress.ip_address(address) in ipaddress.ip_network(subnet)
