# SPDX-License-Identifier: Apache-2.0
"""Expected packets of workloads to the cluster IPs of Services: reached from their own network only. Pure.

A refusal answers for TCP, too, and is the only answer without endpoints.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...common.addressing import family
from ...common.some_of import some_of
from ...render.common.node_network import leads_beyond
from .entrance_expectations import EntranceFlows
from .expectation import primary_network
from .external_flow import TO_CLUSTER_IP, ExternalFlow
from .others import Others
from .policy_permissions import PolicyPermissions
from .selection import MOST_NAMES


class ClusterIpFlows:
    """The expected packets to the cluster IPs of a plan of workloads that can send for verify."""

    def __init__(self, plan: dict, policies: PolicyPermissions, entrances: EntranceFlows) -> None:
        self._plan, self._policies, self._entrances = plan, policies, entrances
        self._services = plan.get("services", {})
        self._with_services = Others(self._services)

    def flows(self, name: str) -> Iterator[ExternalFlow]:
        """Packets of a workload to the Services of its network, and to those of one other network.

        Services with endpoints beyond the network are left out: whether these answer does not depend on the network.
        So are those of which policies permit some endpoints only, and UDP ports that lead elsewhere than to the port of
        verify: what listens there need not answer a datagram.
        """
        network, node = primary_network(self._plan, name), self._plan["workloads"][name]["node"]
        own = self._plan["networks"][network]
        foreign = [self._with_services.at(network, own["id"])] if self._with_services.count(network) else []
        for where in [*([network] if network in self._services else []), *foreign]:
            for service, described in self._services[where].items():
                if leads_beyond(self._plan["networks"][where], described):
                    continue
                result = True, f"{service} is a Service of {network}"
                if where != network:
                    result = False, f"{service} is a Service of {where}"
                for address in (one for one in described["addresses"] if family(one) in own["families"]):
                    for port in _ports(described, node if where == network else ""):
                        permitted = self._policies.to_endpoints(network, name, family(address), port)
                        responders = self._entrances.answering(where, port, family(address))
                        without = not any(family(one["address"]) == family(address) for one in port["endpoints"])
                        unclear = port["protocol"] == "UDP" and where == network and not (responders or without)
                        if permitted is None or unclear:
                            continue
                        target = f"{service} {port['protocol']} {port['port']}"
                        refused = (False, "policies permit it to none of the endpoints")
                        wanted = refused if result[0] and not permitted else result
                        yield ExternalFlow(
                            TO_CLUSTER_IP, node, name, target, name, network, family(address), address, *wanted,
                            protocol=port["protocol"], port=port["port"], responders=responders,
                            named=bool(responders), refused=without and wanted[0],
                        )  # fmt: skip

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
    """Return the ports that can be asked, with the endpoints that answer a workload of the network on a node."""
    is_local = service["internal_traffic_policy"] == "Local" and node
    for port in service["ports"]:
        if port["protocol"] != "SCTP":
            endpoints = [one for one in port["endpoints"] if not is_local or one["node"] == node]
            yield {**port, "endpoints": endpoints}
