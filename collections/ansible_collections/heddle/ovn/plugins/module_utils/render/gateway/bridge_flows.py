# SPDX-License-Identifier: Apache-2.0
"""OpenFlow rules of the provider bridge: classify external traffic per network; the reply path follows ct_mark.

Tables, priorities, zones and marks as ovn-kubernetes's gateway bridge (OKEP-5193, "Shared Gateway Mode"). What a node
sends is committed in one connection tracking zone with its sender's mark: 0x1 the default network, 0x2 the host, 3 + id
a user-defined network, whose masquerade address becomes the node's at the same time. A reply is forwarded by that mark.

Table 0 classifies incoming packets, 1 handles replies from the provider network, 2 host to gateway router, 3 to the
host, 4 and 5 translate between the default network and the host, 11 handles large packets in local gateway mode.
Tables 12 to 16 and those from 20 on are about ARP and neighbour discovery: see `neighbour_flows.py`.
Route advertisements and several external gateways are not part of it.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...common.addressing import family, plain
from ...common.naming import DEFAULT_NETWORK
from ...types.openflow_flow import PATH_MTU_COOKIE, Flow
from ..common.entrances import node_addresses
from ..common.node_network import NodeNetwork
from ..common.overlay import overlay_of
from .bridge import (
    HOST_MARK,
    HOST_ZONE,
    IP,
    OVN_MARK,
    SOURCE,
    TARGET,
    TOO_BIG,
    ZONE,
    Bridge,
    connection_mark,
    packet_mark,
)
from .egress_flows import add_egress_flows
from .neighbour_flows import ADVERTISEMENT, IPV6, SOLICITATION, other_routers, render_neighbours, when_new
from .service_flows import render_services

OVN_ZONE, FRAGMENT_ZONE = 64002, 64004
ETHERNET_HEADER = 14
_TRANSPORTS = {4: ("tcp", "udp", "sctp"), 6: ("tcp6", "udp6", "sctp6")}
_ROUTER_ADVERTISEMENT = 134


def render_bridge_flows(plan: dict, node: str, others: Iterable[str] | None = None) -> list[Flow]:
    """Return the flows of the provider bridge; none on a node without an uplink.

    `others` are the nodes about whose tunnels there are flows, None for all.
    """
    bridge = _Rules(plan, node)
    if not bridge.views:
        return []
    render_neighbours(bridge)
    render_services(bridge)
    bridge.underlay()
    bridge.replies()
    for view in bridge.views:
        bridge.reply(view)
    for version in (4, 6):
        if bridge.provider.address(version) and bridge.subnets("masquerade_subnets", version):
            bridge.host(version)
            bridge.hairpin(version)
            bridge.too_big(version, plan["nodes"] if others is None else others)
            for view in bridge.views:
                if version in view.network["families"]:
                    bridge.outward(view, version)
                    bridge.from_router(view, version)
    return bridge.flows


class _Rules(Bridge):
    """The flows that are not about neighbours."""

    def replies(self) -> None:
        """Table 1: packets from the provider network to the node's address, after conntrack."""
        to_all = ",".join(["FLOOD", *other_routers(self, IPV6)])
        self.add(1, 14, f"icmp6,icmp_type={_ROUTER_ADVERTISEMENT}{self.in_vlan}", to_all)
        self.add(1, 14, f"icmp6,icmp_type={ADVERTISEMENT}{self.in_vlan}", when_new(self, "FLOOD", IPV6))
        self.add(1, 10, f"dl_dst={self.mac}{self.in_vlan}", self.to_host)
        self.add(1, 0, "", "NORMAL")
        for version in (4, 6):
            self.add(0, 50, f"{IP[version]},dl_dst={self.mac}{self.in_vlan}", f"ct(zone={ZONE},nat,table=1)")
            for state in ("+est", "+rel"):
                match = f"{IP[version]}{self.in_vlan},ct_state=+trk{state},ct_mark={HOST_MARK:#x}"
                self.add(1, 100, match, self.to_host)

    def reply(self, view: NodeNetwork) -> None:
        """Forward replies to the router of the request; in local gateway mode the host takes those to be fragmented."""
        back = f"output:{{{self.patch(view)}}}"
        mark = connection_mark(view)
        larger = f"check_pkt_larger({view.outward_mtu + ETHERNET_HEADER})->NXM_NX_REG0[0],resubmit(,11)"
        actions = larger if self.provider.is_local else back
        for version in view.network["families"]:
            for state in ("+est", "+rel"):
                self.add(1, 100, f"{IP[version]},ct_state=+trk{state},ct_mark={mark:#x}", actions, view.name)
        if not self.provider.is_local:
            return
        if view.is_default:
            self.add(11, 10, f"reg0=0x1/0x1{self.in_vlan}", self.to_host)
            self.add(11, 1, "", back)
        else:
            self.add(11, 5, f"ct_mark={mark:#x}", back, view.name)

    def underlay(self) -> None:
        """Keep tunnel packets that pass this bridge out of connection tracking."""
        own = set(map(plain, self.provider.addresses))
        for version in sorted({family(address) for address in self.plan["nodes"][self.node]["encap_ips"]}):
            ends = {plain(item) for item in self.plan["nodes"][self.node]["encap_ips"] if family(item) == version}
            if not ends & own:
                continue
            tunnel = f"{_TRANSPORTS[version][1]},udp_dst={overlay_of(self.plan).udp_port}"
            self.add(0, 205, f"in_port={self.uplink}{self.in_vlan},dl_dst={self.mac},{tunnel}", self.to_host)
            self.add(0, 200, f"in_port={self.uplink},{tunnel}", "NORMAL")
            self.add(0, 200, f"in_port=LOCAL,{tunnel}", self.host_to_uplink)

    def host(self, version: int) -> None:
        """Traffic sent by the host."""
        ip, target = IP[version], TARGET[version]
        commit = f"ct(commit,zone={ZONE},exec(set_field:{HOST_MARK:#x}->ct_mark))"
        self.add(0, 100, f"in_port=LOCAL,{ip}", f"{commit},{self.host_to_uplink}")
        neighbours = [f"{ip},{target}={network}" for network in self.provider.networks(version)]
        if version == 6:
            neighbours += [f"icmp6,icmp_type={kind},icmp_code=0" for kind in (SOLICITATION, ADVERTISEMENT)]
        for near in neighbours:
            self.add(0, 102, f"in_port=LOCAL,dl_src={self.mac},{near}", f"{commit},NORMAL")
        # Classification needs the ports, which only the first fragment has.
        fragment = f"in_port={self.uplink}{self.in_vlan},{ip},nw_frag=yes,ct_state=-trk"
        self.add(0, 110, fragment, f"ct(table=0,zone={FRAGMENT_ZONE})")
        if self.provider.is_local:
            return
        if version in self.default.network["families"]:
            port = f"in_port={{{self.patch(self.default)}}},dl_src={self.mac}"
            commit = f"ct(commit,zone={ZONE},exec(set_field:{OVN_MARK:#x}->ct_mark))"
            for near in neighbours:
                self.add(0, 102, f"{port},{near}", f"{commit},NORMAL")

    def hairpin(self, version: int) -> None:
        """Traffic between the host and gateway routers, under masquerade addresses."""
        ip, source, target = IP[version], SOURCE[version], TARGET[version]
        own, host_side = (
            self.masquerade(NodeNetwork.OVN_MASQUERADE, version),
            self.masquerade(NodeNetwork.HOST_MASQUERADE, version),
        )
        self.add(0, 500, f"in_port=LOCAL,{ip},{target}={own}", f"ct(zone={OVN_ZONE},nat,table=5)")
        for services in self.subnets("service_subnets", version):
            self.add(
                0, 500, f"in_port=LOCAL,{ip},{target}={services}",
                f"ct(commit,zone={HOST_ZONE},nat(src={host_side}),table=2)",
            )  # fmt: skip
            for masquerade in self.subnets("masquerade_subnets", version):
                self.add(
                    0, 550, f"in_port=LOCAL,{ip},{source}={masquerade},{target}={services}",
                    f"ct(commit,zone={HOST_ZONE},table=2)",
                )  # fmt: skip
        for view in self.views:
            if view.is_default or version not in view.network["families"]:
                continue
            marked = f"pkt_mark={packet_mark(view):#x}"
            self.add(2, 250, f"{ip},{marked}", self.host_to_router[view.name], view.name)
            foreign = next(item for item in view.masquerade_addresses(1) if family(item) == version)
            self.add(2, 200, f"{ip},{source}={foreign}", "drop", view.name)
        for service in self.default.shared_services():
            if family(service) == version:
                self.add(2, 300, f"{ip},{target}={service}", self.host_to_router[DEFAULT_NETWORK])
        self.add(2, 100, ip, self.host_to_router[DEFAULT_NETWORK])
        swap = f"move:NXM_OF_ETH_DST[]->NXM_OF_ETH_SRC[],set_field:{self.mac}->eth_dst"
        self.add(3, 0, f"{ip}{self.in_vlan}", f"{swap},{self.to_host}")
        self.add(4, 0, ip, f"ct(commit,zone={OVN_ZONE},nat(src={own}),table=3)")
        self.add(5, 0, ip, f"ct(commit,zone={HOST_ZONE},nat,table=2)")

    def too_big(self, version: int, nodes: Iterable[str]) -> None:
        """Drop ICMP frag-needed/PTB messages about tunnel packets: they would reduce the path MTU between nodes."""
        if self.provider.is_local:
            return
        peers = []
        for name in nodes:
            node = self.plan["nodes"][name]
            gateway_addresses = (node.get("gateway") or {}).get("addresses", [])
            if name != self.node:
                peers += [plain(item) for item in [*gateway_addresses, *node["addresses"]] if family(item) == version]
        for peer in dict.fromkeys(peers):
            match = f"dl_src={self.mac},{TOO_BIG[version]},{TARGET[version]}={peer}"
            self.add(0, 700, match, "drop", cookie=PATH_MTU_COOKIE)
        if peers:
            # Matching the sender's MAC takes one flow per node, not one per network; the host is excepted.
            commit = f"ct(commit,zone={ZONE},exec(set_field:{HOST_MARK:#x}->ct_mark))"
            match = f"in_port=LOCAL,{TOO_BIG[version]}"
            self.add(0, 701, match, f"{commit},{self.host_to_uplink}", cookie=PATH_MTU_COOKIE)

    def outward(self, view: NodeNetwork, version: int) -> None:
        """Traffic from a gateway router to the provider network."""
        address = self.provider.address(version)
        port = f"in_port={{{self.patch(view)}}},dl_src={self.mac},{IP[version]}"
        translate = ""
        if not view.is_default:
            own = next(item for item in view.masquerade_addresses(0) if family(item) == version)
            port += f",{SOURCE[version]}={own}"
            translate = f"nat(src={address}),"
        mark = f"exec(set_field:{connection_mark(view):#x}->ct_mark)"
        self.add(0, 100, port, f"ct(commit,zone={ZONE},{translate}{mark}),{self.to_uplink}", view.name)
        add_egress_flows(self, view, version)
        # Gateway routers do not translate packets that conntrack considers invalid, such as a late FIN, whether they
        # are marked for an egress address or not.
        for own in [*view.network["subnets"], *view.network["join_subnets"]]:
            if family(own) == version:
                match = f"in_port={{{self.patch(view)}}},{IP[version]},{SOURCE[version]}={own}"
                self.add(0, 106, match, "drop", view.name)

    def from_router(self, view: NodeNetwork, version: int) -> None:
        """Traffic from a gateway router to this host, to its own address or to a service."""
        ip, source, target = IP[version], SOURCE[version], TARGET[version]
        address = self.provider.address(version)
        port = f"in_port={{{self.patch(view)}}}"
        host_side = self.masquerade(NodeNetwork.HOST_MASQUERADE, version)
        from_node = f"{port},{ip},{source}={address}"
        back = f"ct(commit,zone={HOST_ZONE},nat(dst={address}),table=4)"
        self.add(0, 500, f"{from_node},{target}={host_side}", back, view.name)
        for other in self._other_addresses(view, version):
            self.add(0, 500, f"{from_node},{target}={other}", f"ct(commit,zone={HOST_ZONE},table=4)", view.name)
        for services in self.subnets("service_subnets", version):
            for masquerade in self.subnets("masquerade_subnets", version):
                self.add(
                    0, 500, f"{port},{ip},{source}={services},{target}={masquerade}",
                    f"ct(zone={HOST_ZONE},nat,table=3)", view.name,
                )  # fmt: skip
            self.add(0, 115, f"{port},{ip},{target}={services}", "drop", view.name)
        if not self.provider.vrf and not view.is_default:
            self._services_without_vrf(view, version)
        if self.provider.is_local:
            for transport in _TRANSPORTS[version]:
                match = f"{port},{transport},{source}={address}"
                self.add(0, 175, match, f"ct(zone={HOST_ZONE},table=4)", view.name)

    def _services_without_vrf(self, view: NodeNetwork, version: int) -> None:
        """Forward to the shared services and back, with the host's kernel as a next hop only.

        ovn-kubernetes uses the management port's VRF. Without one, packets keep the masquerade address of their
        gateway router. They cannot go from router to router directly: the userspace datapath drops packets after
        more than six recirculations.
        """
        ip, source, target = IP[version], SOURCE[version], TARGET[version]
        own = next(item for item in view.masquerade_addresses(0) if family(item) == version)
        port, default = f"in_port={{{self.patch(view)}}}", f"in_port={{{self.patch(self.default)}}}"
        for service in view.shared_services():
            if family(service) == version:
                request = f"{ip},{source}={own},{target}={service}"
                reply = f"{ip},{source}={service},{target}={own}"
                self.add(0, 120, f"{port},dl_src={self.mac},{request}", "resubmit(,3)", view.name)
                self.add(0, 560, f"in_port=LOCAL,{request}", self.host_to_router[DEFAULT_NETWORK], view.name)
                self.add(0, 510, f"{default},{reply}", "resubmit(,3)", view.name)
                self.add(0, 560, f"in_port=LOCAL,{reply}", self.host_to_router[view.name], view.name)

    def _other_addresses(self, view: NodeNetwork, version: int) -> list[str]:
        """Return the host's addresses other than its primary one that a gateway router leads to with that as source.

        The default network's leads to all of them, as ovn-kubernetes's does: the provider network would bring packets
        with the host's own address as source back to it, if at all, and the kernel drops these.
        """
        known = [*self.provider.addresses, *self.plan["nodes"][self.node]["addresses"]]
        if view.is_default:
            known += sorted(node_addresses(view))
        addresses = dict.fromkeys(plain(item) for item in known if family(item) == version)
        return [item for item in addresses if item != self.provider.address(version)]
