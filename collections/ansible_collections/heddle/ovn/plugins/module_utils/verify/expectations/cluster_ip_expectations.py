# SPDX-License-Identifier: Apache-2.0
"""Expected packets of workloads to the cluster IPs of Services: reached from their own network only. Pure.

A refusal answers for TCP, too, and is the only answer without endpoints.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...common.addressing import family
from ...common.text.some_of import some_of
from ...render.common.node_network import leads_beyond
from .expectation import primary_network
from .external_flow import TO_CLUSTER_IP, ExternalFlow
from .others import Others
from .selection import MOST_NAMES
from .service_endpoints import SCTP, Outcome, ServiceEndpoints, Untested


class ClusterIpFlows:
    """The expected packets to the cluster IPs of a plan of workloads that can send for verify."""

    def __init__(self, plan: dict, endpoints: ServiceEndpoints) -> None:
        self._plan, self._endpoints = plan, endpoints
        self._services = plan.get("services", {})
        self._with_services = Others(self._services)

    def flows(self, name: str) -> Iterator[ExternalFlow | Untested]:
        """Packets of a workload to the Services of its network, and to those of one other network.

        Services with endpoints beyond the network are left out: whether these answer does not depend on the network.
        """
        network, node = primary_network(self._plan, name), self._plan["workloads"][name]["node"]
        own = self._plan["networks"][network]
        foreign = [self._with_services.at(network, own["id"])] if self._with_services.count(network) else []
        for where in [*([network] if network in self._services else []), *foreign]:
            for service, described in self._services[where].items():
                if leads_beyond(self._plan["networks"][where], described):
                    continue
                for address in (one for one in described["addresses"] if family(one) in own["families"]):
                    for port in _ports(described, node if where == network else ""):
                        outcome = self._outcome(where, service, port, family(address), name, network)
                        if outcome.untested:
                            what = f"{service} {port['protocol']} {port['port']} of {where}"
                            yield Untested(TO_CLUSTER_IP, outcome.untested, what)
                            continue
                        responders = outcome.responders if outcome.named else ()
                        yield ExternalFlow(
                            TO_CLUSTER_IP, node, name, f"{service} {port['protocol']} {port['port']}", name, network,
                            family(address), address, outcome.reach, outcome.reason, protocol=port["protocol"],
                            port=port["port"], responders=responders, named=bool(responders),
                            refused=outcome.reach and not outcome.responders, denied=outcome.denied,
                        )  # fmt: skip

    def _outcome(self, where: str, service: str, port: dict, version: int, name: str, network: str) -> Outcome:
        if where == network:
            client = self._endpoints.client(network, name, version)
            return self._endpoints.outcome(network, port, version, client, f"{service} is a Service of {network}")
        if port["protocol"] == "SCTP":
            return Outcome(untested=SCTP)
        responders = self._endpoints.answering(where, port, version)
        return Outcome(False, f"{service} is a Service of {where}", responders, bool(responders))

    def untested(self) -> list[str]:
        """Return a line that names the Services that are left out, if there are any."""
        names = [
            f"{service} of {network}"
            for network, services in self._services.items()
            for service, described in services.items()
            if leads_beyond(self._plan["networks"][network], described)
        ]
        if not names:
            return []
        return [
            f"{TO_CLUSTER_IP}: not tested for {some_of(names, MOST_NAMES)}, which have endpoints beyond their network"
        ]


def _ports(service: dict, node: str) -> Iterator[dict]:
    """Return the ports with the endpoints that answer a workload of the network on a node."""
    is_local = service["internal_traffic_policy"] == "Local" and node
    for port in service["ports"]:
        endpoints = [one for one in port["endpoints"] if not is_local or one["node"] == node]
        yield {**port, "endpoints": endpoints}
