# SPDX-License-Identifier: Apache-2.0
"""The provider bridge of one node: its networks, names and settings, and the list that flows are added to."""

from __future__ import annotations

from ...common.addressing import family, mac_of_address, nth_address
from ...common.naming import DEFAULT_NETWORK, patch_port
from ...types.openflow_flow import FloodPort, Flow, StaticMac
from ..common.node_network import NodeNetwork, is_mesh, is_on
from ..common.provider import Provider

# Connections with the provider network, and those between the host and gateway routers under masquerade addresses.
ZONE, HOST_ZONE = 64000, 64001
# A zone that no connection is committed in. Open vSwitch copies a packet for a clone that tracks connections.
COPY_ZONE = 64005
# Connections from the provider network by node ports, for messages about what answers them; the table after the zone.
NODE_PORT_ZONE, NODE_PORT_TABLE = 64006, 9
# Answers of the host's own endpoints, after connection tracking.
PROCESS_TABLE = 8
OVN_MARK, HOST_MARK, NETWORK_MARK_BASE = 1, 2, 3
IP = {4: "ip", 6: "ipv6"}
# "Fragmentation needed" and "packet too big": path MTU discovery.
TOO_BIG = {4: "icmp,icmp_type=3,icmp_code=4", 6: "icmp6,icmp_type=2,icmp_code=0"}
SOURCE, TARGET = {4: "nw_src", 6: "ipv6_src"}, {4: "nw_dst", 6: "ipv6_dst"}
# Marks of packets are this plus the id of the network, which is below 4096. Under the mask no other mark equals it.
PACKET_MARK_BASE, PACKET_MARK_MASK = 0x1000, 0xFFFFF000


def packet_mark(view: NodeNetwork) -> int:
    """Return the mark of packets that the host sends for a network."""
    return PACKET_MARK_BASE + view.network["id"]


def connection_mark(view: NodeNetwork) -> int:
    """Return the mark of connections that a network's gateway router opens."""
    return OVN_MARK if view.is_default else NETWORK_MARK_BASE + view.network["id"]


def primary_views(plan: dict, node: str) -> list[NodeNetwork]:
    """Return all networks with gateway routers, the default network first; none on a node without an uplink.

    In a primary network of the mesh the host itself is the router (`render/host/mesh_gateway.py`).
    """
    views = [NodeNetwork(plan, name, node, []) for name, network in plan["networks"].items() if is_on(network, node)]
    found = [view for view in views if view.is_primary and view.provider and not is_mesh(view.network)]
    found.sort(key=lambda view: view.network["id"])
    return found if found and found[0].is_default else []


def render_flood_ports(plan: dict, node: str) -> list[FloodPort]:
    """Return the ports without flooding: thousands of routers would answer for one address."""
    bridge = Bridge(plan, node)
    return [
        FloodPort(bridge.name, bridge.patch(view), flood=False, network=view.name)
        for view in bridge.views
        if not view.is_default
    ]


def render_static_macs(plan: dict, node: str) -> list[StaticMac]:
    """Return static MACs: the bridge must not learn the host's MAC, which all gateway routers use, elsewhere."""
    bridge = Bridge(plan, node)
    if not bridge.views:
        return []
    return [StaticMac(bridge.name, bridge.provider.mac, bridge.name, vlan=bridge.provider.vlan or 0)]


class Bridge:
    """Collects the flows of one node's provider bridge."""

    def __init__(self, plan: dict, node: str) -> None:
        self.plan, self.node = plan, node
        self.views = primary_views(plan, node)
        self.flows: list[Flow] = []
        if not self.views:
            return
        self.default = next(view for view in self.views if view.name == DEFAULT_NETWORK)
        self.provider: Provider = self.default.provider
        self.name = self.provider.bridge
        self.mac = self.provider.mac
        tagged = f"mod_vlan_vid:{self.provider.vlan}," if self.provider.vlan else ""
        untagged = "strip_vlan," if self.provider.vlan else ""
        # Host and gateway routers are in the provider network's VLAN; frames of other VLANs are only switched. OpenFlow
        # can pop a tag only where the match requires one.
        self.in_vlan = f",dl_vlan={self.provider.vlan}" if self.provider.vlan else ""
        self.untagged, self.tagged = untagged, tagged
        self.uplink = f"{{{self.provider.uplink}}}"
        self.to_uplink = f"output:{self.uplink}"
        self.host_to_uplink = tagged + self.to_uplink
        self.to_host = f"{untagged}output:LOCAL"
        # From the host to a gateway router, which has the same MAC. The source is another one: the router sends its TCP
        # resets and ICMP errors back to it, and packets to its own MAC would not leave it.
        host_side = mac_of_address(nth_address(plan["settings"]["masquerade_subnets"][0], NodeNetwork.HOST_MASQUERADE))
        macs = f"set_field:{host_side}->eth_src,set_field:{self.mac}->eth_dst"
        self.host_to_router = {view.name: f"{macs},{tagged}output:{{{self.patch(view)}}}" for view in self.views}

    def patch(self, view: NodeNetwork) -> str:
        """Return the bridge's port towards a network's gateway router."""
        return patch_port(view.name, self.node, self.name)

    def add(self, table: int, priority: int, match: str, actions: str, network: str = "", **more) -> None:
        """Add one flow."""
        self.flows.append(Flow(self.name, table, priority, match, actions, network, **more))

    def subnets(self, setting: str, version: int) -> list[str]:
        """Return a setting's subnets of one family."""
        return [subnet for subnet in self.plan["settings"][setting] if family(subnet) == version]

    def masquerade(self, offset: int, version: int) -> str:
        """Return a masquerade address with a fixed meaning."""
        return nth_address(self.subnets("masquerade_subnets", version)[0], offset)
