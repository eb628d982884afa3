# SPDX-License-Identifier: Apache-2.0
"""One network as one host sees it: the derived addresses and names that every renderer needs."""

from __future__ import annotations

from functools import cached_property

from ...common.addressing import (
    GATEWAY_OFFSET,
    MANAGEMENT_OFFSET,
    family,
    is_within,
    mac_of_address,
    masquerade_pair,
    nth_address,
    nth_interface,
    prefix_length,
    transit_pair,
)
from ...common.naming import (
    DEFAULT_NETWORK,
    EXTERNAL_ID_NETWORK,
    EXTERNAL_ID_ROLE,
    EXTERNAL_ID_TOPOLOGY,
    MESH_TOPOLOGY,
    layer2_switch,
    localnet_switch,
    node_switch,
)
from .provider import EPHEMERAL_PORTS, Provider, provider_of


class NodeNetwork:
    """A network of the plan, seen from `node`; `workloads` are its (workload, interface) pairs on all nodes."""

    # Offsets into the masquerade subnets (ovn-kubernetes's numbering).
    OVN_MASQUERADE = 1
    HOST_MASQUERADE = 2
    LOCAL_SERVICE_MASQUERADE = 3
    DUMMY_NEXT_HOP = 4

    def __init__(self, plan: dict, network: str, node: str, workloads: list[tuple[dict, dict]]) -> None:
        self.plan = plan
        self.workloads = workloads
        self.name = network
        self.node = node
        self.network = plan["networks"][network]
        self.settings = plan["settings"]

    @property
    def is_default(self) -> bool:
        """Return whether this is the default network."""
        return self.name == DEFAULT_NETWORK

    @property
    def is_primary(self) -> bool:
        """Return whether the network has gateway routers."""
        return self.network["role"] == "Primary"

    @property
    def workload_switch(self) -> str:
        """Return the switch of this node's workloads."""
        topology = self.network["topology"]
        if topology == "Layer3":
            return node_switch(self.name, self.node)
        return layer2_switch(self.name) if topology == "Layer2" else localnet_switch(self.name)

    @property
    def remotes(self) -> list[str]:
        """Return the network's other nodes with a known chassis; without one there is no tunnel endpoint yet."""
        nodes = self.plan["nodes"]
        return [name for name in nodes_of(self.plan, self.name) if name != self.node and nodes[name]["chassis"]]

    def chassis(self, node: str | None = None) -> str:
        """Return a node's chassis name (its Open vSwitch system-id)."""
        return self.plan["nodes"][node or self.node]["chassis"]

    def node_id(self, node: str | None = None) -> int:
        """Return a node's id."""
        return self.plan["nodes"][node or self.node]["id"]

    @property
    def outward_mtu(self) -> int:
        """Return the largest packet, in bytes, that passes between the network and the provider network.

        The network's own MTU, limited by the setting `mtu`: paths beyond the node have no larger MTU.
        """
        return min(self.network["mtu"], self.settings["mtu"])

    def external_ids(self, *, role: bool = False) -> dict:
        """Return the external_ids that ovn-kubernetes gives a network's objects; the default network has none."""
        if self.is_default:
            return {}
        ids = {EXTERNAL_ID_NETWORK: self.name, EXTERNAL_ID_TOPOLOGY: self.network["topology"].lower()}
        if role:
            ids[EXTERNAL_ID_ROLE] = self.network["role"].lower()
        return ids

    def subnets(self, node: str | None = None) -> list[str]:
        """Return the subnets on a node's switch: its host subnets (Layer3) or the network's (Layer2)."""
        if self.network["topology"] == "Layer3":
            return self.network["host_subnets"][node or self.node]
        return sorted(self.network["subnets"], key=family)

    def gateway_interfaces(self, node: str | None = None) -> list[str]:
        """Return the router's addresses on the node's switch, with prefix length."""
        if "gateways" in self.network:
            chosen = zip(self.network["gateways"], self.subnets(node), strict=True)
            return [f"{gateway}/{prefix_length(subnet)}" for gateway, subnet in chosen]
        return [nth_interface(subnet, GATEWAY_OFFSET) for subnet in self.subnets(node)]

    def management_addresses(self) -> list[str]:
        """Return the addresses of the node's own interface in the network."""
        if "management" in self.network:
            return self.network["management"]
        return [nth_address(subnet, MANAGEMENT_OFFSET) for subnet in self.subnets()]

    def join_router_interfaces(self) -> list[str]:
        """Return the cluster router's addresses on the join switch."""
        return [nth_interface(subnet, 1) for subnet in self.network["join_subnets"]]

    def join_interfaces(self, node: str | None = None) -> list[str]:
        """Return a gateway router's join addresses: join base + node id."""
        return [nth_interface(subnet, self.node_id(node)) for subnet in self.network["join_subnets"]]

    def gateway_router_mac(self, node: str | None = None) -> str:
        """Return the MAC of a gateway router towards its network: that of its first join address, IPv4 first.

        A network without IPv4 has it of the IPv4 address that the router would have. ovn-kubernetes gives gateway
        routers join addresses of all families of the cluster (`GetGWRouterIPs`).
        """
        subnet = self.network.get("mac_subnet")
        return first_mac([nth_interface(subnet, self.node_id(node))] if subnet else self.join_interfaces(node))

    def transit_interfaces(self, node: str | None = None) -> list[str]:
        """Return a node's addresses on the Layer3 transit switch: transit base + node id."""
        return [nth_interface(subnet, self.node_id(node)) for subnet in self.network["transit_subnets"]]

    def transit_pairs(self, node: str | None = None) -> list[tuple[str, str]]:
        """Return a node's Layer2 transit pairs: (transit router's, gateway router's) interface per family."""
        return [transit_pair(subnet, self.node_id(node)) for subnet in self.network["transit_subnets"]]

    @cached_property
    def provider(self) -> Provider | None:
        """Return the node's connection to the provider network, None without one."""
        return provider_of(self.plan["nodes"][self.node])

    @property
    def translated_ports(self) -> str:
        """Return the ports that connections translated on this node may get, `FIRST-LAST`."""
        return self.provider.translated_ports if self.provider else EPHEMERAL_PORTS

    def masquerade_subnets(self) -> list[str]:
        """Return the masquerade subnets of the families that the network has."""
        return [subnet for subnet in self.settings["masquerade_subnets"] if family(subnet) in self.network["families"]]

    def masquerade(self, offset: int) -> list[str]:
        """Return the masquerade addresses with a fixed meaning, without prefix length."""
        return [nth_address(subnet, offset) for subnet in self.masquerade_subnets()]

    def masquerade_addresses(self, side: int) -> list[str]:
        """Return the network's masquerade addresses on the node; side 0: gateway router, 1: management port."""
        return [masquerade_pair(subnet, self.network["id"])[side] for subnet in self.masquerade_subnets()]

    @property
    def services(self) -> dict[str, dict]:
        """Return the network's Services of the plan, by `namespace/name`."""
        return self.plan.get("services", {}).get(self.name, {})

    @property
    def egress_services(self) -> dict[str, dict]:
        """Return the network's EgressServices of the plan, by `namespace/name`."""
        return self.plan.get("egress_services", {}).get(self.name, {})

    @property
    def headless_services(self) -> dict[str, dict[str, list[str]]]:
        """Return the endpoints of the network's headless Services, by `namespace/name`: addresses by name, or by ""."""
        return self.plan.get("headless", {}).get(self.name, {})

    @property
    def has_load_balancer_group(self) -> bool:
        """Return whether a Service of the network is the same on all nodes; these are in one group."""
        return any(not is_of_node(self.network, service) for service in self.services.values())

    def shared_services(self) -> list[str]:
        """Return the addresses of the shared services, of the network's families."""
        found = self.settings.get("shared_services", [])
        return [service["address"] for service in found if family(service["address"]) in self.network["families"]]


def is_of_node(network: dict, service: dict) -> bool:
    """Return whether a Service has other targets on each node, or for a switch and a gateway router of one.

    As in ovn-kubernetes: with a traffic policy Local, and with endpoints beyond the network's subnets.
    """
    policies = service["internal_traffic_policy"], service.get("external", {}).get("traffic_policy")
    return "Local" in policies or leads_beyond(network, service)


def leads_beyond(network: dict, service: dict) -> bool:
    """Return whether a Service has endpoints beyond its network's subnets."""
    return any(
        not is_within(one["address"], network["subnets"]) for port in service["ports"] for one in port["endpoints"]
    )


def is_on(network: dict, node: str) -> bool:
    """Return whether a network of the plan is on a node."""
    if "nodes" in network:
        return node in network["nodes"]
    return network["topology"] != "Layer3" or node in network["host_subnets"]


def is_mesh(network: dict) -> bool:
    """Return whether a network of the plan is one of the mesh, and none of OVN's."""
    return network["topology"] == MESH_TOPOLOGY


def nodes_of(plan: dict, network: str) -> list[str]:
    """Return the nodes that a network is on, in the order of the plan."""
    described = plan["networks"][network]
    return described["nodes"] if "nodes" in described else [name for name in plan["nodes"] if is_on(described, name)]


def attachments(plan: dict) -> dict[str, list[tuple[dict, dict]]]:
    """Return the attachments of all workloads by network."""
    found: dict[str, list[tuple[dict, dict]]] = {}
    for workload in plan["workloads"].values():
        for interface in workload["interfaces"]:
            found.setdefault(interface["network"], []).append((workload, interface))
    return found


def first_mac(interfaces: list[str]) -> str:
    """Return the MAC derived from the first address, IPv4 first."""
    return mac_of_address(sorted(interfaces, key=family)[0])


def switch_config(subnets: list[str]) -> dict:
    """Return a logical switch's `other_config` for its subnets."""
    config = {}
    for subnet in subnets:
        if family(subnet) == 4:
            config["subnet"] = subnet
        else:
            config["ipv6_prefix"] = subnet.partition("/")[0]
    return config
