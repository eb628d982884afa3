# SPDX-License-Identifier: Apache-2.0
"""How packets from beyond a network come in to its Services on one node: addresses and ports.

Shared by load balancers, flows of the provider bridge, and the host's firewall.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from ipaddress import ip_address

from ...common.addressing import family, is_within, network_of, plain
from ...common.naming import DEFAULT_NETWORK
from .egress_ips import held_addresses as held_egress_addresses
from .node_network import NodeNetwork, is_on
from .provider import provider_of

NODE_PORT, EXTERNAL, LOAD_BALANCER = "node port", "external address", "load balancer"


@dataclass(frozen=True)
class Entrance:
    """One address and port of a Service, by which packets from beyond the network come in.

    `port` is the Service's port of the plan. `cluster_ip` is the Service's address of the same family. `is_here` says
    whether packets to `address` come in on this node: always for node ports and external addresses; a load balancer's
    address is on one node. `sources` are the ranges that may send to it, () for any.
    """

    kind: str
    service: str
    protocol: str
    address: str
    number: int
    cluster_ip: str
    port: dict = field(hash=False)
    is_local: bool
    is_here: bool
    sources: tuple[str, ...] = ()

    @property
    def version(self) -> int:
        """Return the address family."""
        return family(self.address)


def is_open_to_nodes(view: NodeNetwork, entrance: Entrance) -> bool:
    """Return whether an entrance lets in what comes with the address of this node, as workloads of other networks do.

    As from any other node, where the source ranges decide about it.
    """
    own = view.provider.address(entrance.version)
    return not entrance.sources or any(ip_address(own) in network_of(one) for one in entrance.sources)


def entrances(view: NodeNetwork) -> list[Entrance]:
    """Return the entrances by the provider network to Services of a network; none without a provider network."""
    return [one for name in view.services for one in entrances_of(view, name)]


def entrances_of(view: NodeNetwork, name: str) -> list[Entrance]:
    """Return the entrances to one Service (`namespace/name`)."""
    service = view.services[name]
    external = service.get("external")
    if not external or not view.provider:
        return []
    cluster_ips = {family(text): text for text in service["addresses"]}
    is_local = external["traffic_policy"] == "Local"
    # As in Kubernetes: source ranges are about the addresses of load balancers.
    ranges = external["source_ranges"]
    found = []
    for port in service["ports"]:
        places = [(EXTERNAL, address, port["port"], True) for address in external["addresses"]]
        places += [
            (LOAD_BALANCER, one["address"], port["port"], one["node"] == view.node) for one in external["load_balancer"]
        ]
        if "node_port" in port:
            nodes = dict.fromkeys(plain(address) for address in view.provider.addresses)
            places += [(NODE_PORT, address, port["node_port"], True) for address in nodes]
        found += [
            Entrance(
                kind, name, port["protocol"], address, number, cluster_ips[family(address)], port, is_local, is_here,
                tuple(one for one in ranges if family(one) == family(address)) if kind == LOAD_BALANCER else (),
            )
            for kind, address, number, is_here in places
            if family(address) in cluster_ips
        ]  # fmt: skip
    return found


def further_entrances(view: NodeNetwork) -> list[Entrance]:
    """Return the node ports at the node's other addresses: tunnel endpoints, other NICs, the management port.

    The provider network does not lead to these. Packets to them pass the host's kernel in both gateway modes.
    """
    if not view.provider:
        return []
    own = own_addresses(view)
    further = [one for one in node_port_addresses(view.plan, view.node) if one not in own]
    return [
        replace(entrance, address=address)
        for entrance in (entrances(view) if further else ())
        if entrance.kind == NODE_PORT and entrance.address == view.provider.address(entrance.version)
        for address in further
        if family(address) == entrance.version
    ]


def node_port_addresses(plan: dict, node: str) -> list[str]:
    """Return the addresses at which a node has node ports and health checks, those of the provider network first.

    All that a run knows, and the host's own in the default network. None without a provider network.
    """
    described = plan["nodes"][node]
    provider = provider_of(described)
    if provider is None:
        return []
    found = [*provider.addresses, *known_addresses(described)]
    if is_on(plan["networks"][DEFAULT_NETWORK], node):
        found += NodeNetwork(plan, DEFAULT_NETWORK, node, []).management_addresses()
    return list(dict.fromkeys(map(plain, found)))


def known_addresses(described: dict) -> list[str]:
    """Return the addresses of a node of the plan besides those on its provider bridge."""
    others = (one for addresses in described.get("other_addresses", {}).values() for one in addresses)
    return [*described["addresses"], *described["encap_ips"], *others]


def endpoints_beyond(view: NodeNetwork) -> set[str]:
    """Return the endpoints beyond the network, as EndpointSlices list them, of Services that have entrances."""
    if not view.provider:
        return set()
    return {
        endpoint["address"]
        for service in view.services.values()
        if service.get("external")
        for port in service["ports"]
        for endpoint in port["endpoints"]
        if not is_within(endpoint["address"], view.network["subnets"])
    }


def own_addresses(view: NodeNetwork) -> set[str]:
    """Return the addresses of the node that its gateway routers have as well; none without a provider network."""
    return {plain(one) for one in view.provider.addresses} if view.provider else set()


def node_addresses(view: NodeNetwork) -> set[str]:
    """Return all addresses of the node that a run knows, at which its processes may be endpoints."""
    return own_addresses(view) | set(map(plain, known_addresses(view.plan["nodes"][view.node])))


def process_of_node(view: NodeNetwork, entrance: Entrance) -> tuple[str, int] | None:
    """Return address and port of the node's own endpoint that an entrance leads to with the policy Local, if any.

    A process of the node, as a pod in the host's network is in Kubernetes. It receives all packets, whatever other
    endpoints the node has (ovn-kubernetes, `updateServiceFlowCache`, case 1).
    """
    if not entrance.is_local:
        return None
    own = node_addresses(view)
    found = (
        (one["address"], one["port"])
        for one in entrance.port["endpoints"]
        if one["node"] == view.node and one["address"] in own and family(one["address"]) == entrance.version
    )
    return next(found, None)


def local_port(entrance: Entrance) -> int:
    """Return the port of the masquerade address for local services that leads to the endpoints of this node.

    0 where it has none: in a plan that an earlier release has written, without node ports.
    """
    return entrance.port.get("node_port") or entrance.port.get("local_port", 0)


def has_local_by_host(view: NodeNetwork) -> bool:
    """Return whether the gateway router answers clients of other NICs, which it sees with their own addresses.

    In shared gateway mode, to Services with the external traffic policy Local (`gateway/service_flows.py`).
    """
    if view.provider is None or view.provider.is_local or not node_addresses(view) - own_addresses(view):
        return False
    return any(one.is_local and local_port(one) for one in entrances(view))


def held_load_balancer_addresses(plan: dict, node: str) -> list[str]:
    """Return the load balancer addresses that a node announces."""
    return [
        one["address"]
        for services in plan.get("services", {}).values()
        for service in services.values()
        for one in service.get("external", {}).get("load_balancer", ())
        if one["node"] == node
    ]


def held_addresses(plan: dict, node: str) -> list[str]:
    """Return the addresses that a node has for others: those of EgressIPs and of load balancers."""
    return held_egress_addresses(plan, node) + held_load_balancer_addresses(plan, node)
