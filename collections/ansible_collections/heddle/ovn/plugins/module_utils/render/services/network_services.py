# SPDX-License-Identifier: Apache-2.0
"""Load balancers of the Services of a network.

Names, options and scopes as in ovn-kubernetes: a Service that every node treats alike has one load balancer for each
protocol, in a group that the network's switch and gateway router share; its node ports, which have the node's own
addresses, are in a further one. One whose targets depend on the node has one for its switch and one for its gateway
router, and with the external traffic policy Local another one for the router, which keeps the source address. Only
switches and routers of its network have them, so other networks do not reach its cluster IP.

A load balancer without any target keeps source addresses, too (`load_balancer_options.py`). That is an option of the
load balancer, not of an address in it. So where packets from beyond the network come in, a gateway router has one load
balancer for each port and family, `_PORT_IPvFAMILY`, whose targets are alike. They stay the same when endpoints come
and go: when one load balancer loses an address of the router that another one has, northd drops what is sent to that
address (until it computes everything).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...common.addressing import family, is_within, network_of, nth_address
from ...common.naming import (
    EXTERNAL_ID_NETWORK,
    EXTERNAL_ID_ROLE,
    gateway_router,
    load_balancer_group,
    prefix,
)
from ...types.ovsdb_row import Parent, Row
from ..common.entrances import (
    NODE_PORT,
    Entrance,
    entrances_of,
    further_entrances,
    local_port,
    own_addresses,
)
from ..common.node_network import NodeNetwork, is_of_node
from ..common.ovn_rows import LOAD_BALANCER_GROUP, ROUTER, SWITCH
from .load_balancer_options import options_of, socket

# OVN keeps affinity for less than a day; the longest timeout of Kubernetes means that it never ends.
_ENDLESS = 86400
# The longest one of OVN, whose field for it has 16 bits; northd (25.03) takes it for longer ones with a warning.
_LONGEST = 65535

Targets = Callable[[dict, int], list[str]]


def render_network_services(view: NodeNetwork) -> list[Row]:
    """Return the load balancers of a network's Services on this node, and the group of those alike on all nodes."""
    rows = []
    group = load_balancer_group(view.name)
    # What a workload sends to an address of its network is for what has it there.
    further: dict[str, list[Entrance]] = {}
    for one in further_entrances(view):
        if not is_within(one.address, view.network["subnets"]):
            further.setdefault(one.service, []).append(one)
    if view.has_load_balancer_group:
        rows.append(Row(LOAD_BALANCER_GROUP, group, {"name": group}, view.name))
    for name, service in view.services.items():
        balancing = _Balancing(view, name, service, further.get(name, []))
        for protocol in sorted({port["protocol"] for port in service["ports"]}):
            rows += balancing.rows(protocol)
    return rows


@dataclass(frozen=True)
class _Part:
    """What one load balancer has of a Service: cluster IPs, ports and entrances; `suffix` ends its name."""

    suffix: str
    ports: list[dict]
    addresses: list[str]
    entrances: list[Entrance]


class _Balancing:
    """The load balancers of one Service on the node.

    `further` are the node ports that workloads of the network reach, and the provider network does not lead to.
    """

    def __init__(self, view: NodeNetwork, name: str, service: dict, further: list[Entrance]) -> None:
        self.view, self.name, self.service, self._further = view, name, service, further
        self.entrances = entrances_of(view, name)
        self._router = Parent(ROUTER, gateway_router(view.name, view.node), "load_balancer")

    def rows(self, protocol: str) -> list[Row]:
        """Return the rows of one protocol."""
        ports = [port for port in self.service["ports"] if port["protocol"] == protocol]
        outer = [one for one in self.entrances if one.protocol == protocol]
        parts = self._parts(ports, outer)
        if not is_of_node(self.view.network, self.service):
            return [row for part in parts for row in self._alike(protocol, part)]
        return [
            self._of_switch(protocol, _Part("", ports, self.service["addresses"], outer)),
            *(self._of_router(protocol, part) for part in parts),
            *self._of_local_router(protocol, [one for one in outer if one.is_local]),
        ]

    def _parts(self, ports: list[dict], outer: list[Entrance]) -> list[_Part]:
        """Return what a gateway router has a load balancer for: each port and family, all at once without entrances."""
        addresses = self.service["addresses"]
        if not outer:
            return [_Part("", ports, addresses, [])]
        return [
            _Part(
                f"_{port['port']}_IPv{family(address)}", [port], [address],
                [one for one in outer if one.port == port and one.version == family(address)],
            )
            for port in ports
            for address in addresses
        ]  # fmt: skip

    def _alike(self, protocol: str, part: _Part) -> list[Row]:
        """Return what the switch and the gateway router share."""
        shared = Parent(LOAD_BALANCER_GROUP, load_balancer_group(self.view.name), "load_balancer")
        own = self._with_further([one for one in part.entrances if one.kind == NODE_PORT])
        everywhere = [one for one in part.entrances if one.kind != NODE_PORT]
        vips = self._inner(part, self._all) | self._outer(everywhere, self._all)
        rows = [self._row(protocol, f"cluster{part.suffix}", shared, vips)]
        if own:
            scope = f"node_router+switch_{self.view.node}{part.suffix}"
            rows.append(self._row(protocol, scope, shared, self._outer(own, self._all)))
        return rows

    def _of_switch(self, protocol: str, part: _Part) -> Row:
        """Workloads of the network reach all endpoints by the external addresses, whatever the policy."""
        parent = Parent(SWITCH, self.view.workload_switch, "load_balancer")
        outer = self._with_further(part.entrances)
        vips = self._inner(part, self._internal) | self._outer(outer, self._all)
        if self.view.provider and self.view.provider.is_local:
            vips |= self._through_host(part.entrances, self._of_node_targets)
        return self._row(protocol, f"node_switch_{self.view.node}", parent, vips)

    def _of_router(self, protocol: str, part: _Part) -> Row:
        other = [one for one in part.entrances if not one.is_local]
        vips = self._inner(part, self._routed) | self._outer(other, self._routed)
        return self._row(protocol, f"node_router_{self.view.node}{part.suffix}", self._router, vips)

    def _of_local_router(self, protocol: str, local: list[Entrance]) -> list[Row]:
        if not local:
            return []
        vips = self._outer(local, self._routed_of_node)
        if not self.view.provider.is_local:
            vips |= self._through_host(local, self._routed_of_node)
        return [self._row(protocol, f"node_local_router_{self.view.node}", self._router, vips, keeps_source=True)]

    def _row(
        self, protocol: str, scope: str, parent: Parent, vips: dict[str, str], *, keeps_source: bool = False
    ) -> Row:
        name = f"{prefix(self.view.name)}Service_{self.name}_{protocol}_{scope}"
        options = options_of(self.view, protocol, vips, keeps_source=keeps_source)
        columns = {
            "name": name,
            "protocol": protocol.lower(),
            "vips": vips,
            "options": options,
            "external_ids": _external_ids(self.view, self.name),
        }
        if 0 < self.service["affinity"] < _ENDLESS:
            options["affinity_timeout"] = str(min(self.service["affinity"], _LONGEST))
        elif self.service["affinity"]:
            columns["selection_fields"] = {"ip_src", "ip_dst"}
        return Row("Load_Balancer", name, columns, self.view.name, parent)

    @staticmethod
    def _inner(part: _Part, targets: Targets) -> dict[str, str]:
        """Return the cluster IPs with their targets."""
        return {
            socket(address, port["port"]): ",".join(targets(port, family(address)))
            for port in part.ports
            for address in part.addresses
        }

    @staticmethod
    def _outer(entrances: list[Entrance], targets: Targets) -> dict[str, str]:
        """Return what comes in from beyond the network with its targets."""
        return {socket(one.address, one.number): ",".join(targets(one.port, one.version)) for one in entrances}

    def _with_further(self, entrances: list[Entrance]) -> list[Entrance]:
        """Return these with the node ports at other addresses of the node for the same ports."""
        known = {(one.version, one.protocol, one.number) for one in entrances if one.kind == NODE_PORT}
        return entrances + [one for one in self._further if (one.version, one.protocol, one.number) in known]

    def _through_host(self, entrances: list[Entrance], targets: Targets) -> dict[str, str]:
        """Return by what address the host reaches the endpoints of this node, of what it keeps the source address of.

        That is the external traffic policy Local (`render/host/service_rules.py`): in local gateway mode over the
        management port, in shared mode by the gateway router what came in by another NIC.
        """
        local = [one for one in entrances if one.is_local and local_port(one)]
        addresses = {family(one): one for one in self.view.masquerade(NodeNetwork.LOCAL_SERVICE_MASQUERADE)}
        return {
            socket(addresses[one.version], local_port(one)): ",".join(targets(one.port, one.version)) for one in local
        }

    @staticmethod
    def _all(port: dict, version: int) -> list[str]:
        """Return the endpoints of one family; none rejects connections."""
        return [socket(one["address"], one["port"]) for one in port["endpoints"] if family(one["address"]) == version]

    def _internal(self, port: dict, version: int) -> list[str]:
        """Return the endpoints for workloads of the network."""
        if self.service["internal_traffic_policy"] == "Local":
            return self._of_node_targets(port, version)
        return self._all(port, version)

    def _of_node_targets(self, port: dict, version: int) -> list[str]:
        """Return the endpoints on this node."""
        return self._all(self._of_node(port), version)

    def _of_node(self, port: dict) -> dict:
        return {"endpoints": [one for one in port["endpoints"] if one["node"] == self.view.node]}

    def _routed_of_node(self, port: dict, version: int) -> list[str]:
        """Return the endpoints on this node as the gateway router reaches them."""
        return self._routed(self._of_node(port), version)

    def _routed(self, port: dict, version: int) -> list[str]:
        """Return the endpoints as the gateway router reaches them."""
        return [
            socket(seen_from_router(self.view, one["address"]), one["port"])
            for one in port["endpoints"]
            if family(one["address"]) == version
        ]


def _external_ids(view: NodeNetwork, service_name: str) -> dict:
    ids = {"k8s.ovn.org/kind": "Service", "k8s.ovn.org/owner": service_name}
    return ids if view.is_default else {**ids, EXTERNAL_ID_NETWORK: view.name, EXTERNAL_ID_ROLE: "primary"}


def seen_from_router(view: NodeNetwork, address: str) -> str:
    """A gateway router has the node's own addresses, so it cannot send packets to the node by them."""
    if address not in own_addresses(view):
        return address
    subnet = next(item for item in view.masquerade_subnets() if network_of(item).version == family(address))
    return nth_address(subnet, NodeNetwork.HOST_MASQUERADE)
