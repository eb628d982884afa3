# SPDX-License-Identifier: Apache-2.0
"""OpenFlow rules of the provider bridge for Services: what comes in from beyond a network, and the answers to it.

As in ovn-kubernetes's gateway bridge packets to a node port, an external address or a load balancer's address go from
the uplink to the gateway router of the Service's network, whose load balancer chooses the endpoint, and its answers go
back, without connection tracking on the bridge but for node ports: their address is the host's own, so the bridge has
to know whose a connection is that a message of a router on the way is about. ovn-kubernetes has no such zone, and these
flows at priority 110, as those of fragments, whose order is then undefined; here they are below. The path is the same
in local gateway mode, unless the source address has to stay: then workloads answer through the host, so the packets
come in through it, too (`render/host/service_rules.py`). So they do in both modes where a process of this node is the
endpoint.

Packets of the host and of other networks' gateway routers to an address that this host has go through the host's
kernel, which translates them to the cluster IP and marks them with the network. So does what comes in by another NIC of
the host; with the external traffic policy Local it keeps its source address, and has an address of its own here
(`_local_by_host`).
"""

from __future__ import annotations

from ...common.addressing import family, mac_of_address
from ..common.egress_ips import held_marks
from ..common.egress_services import leaving_addresses
from ..common.entrances import (
    EXTERNAL,
    LOAD_BALANCER,
    NODE_PORT,
    Entrance,
    endpoints_beyond,
    entrances,
    further_entrances,
    held_load_balancer_addresses,
    is_open_to_nodes,
    local_port,
    node_addresses,
    own_addresses,
    process_of_node,
)
from ..common.node_network import NodeNetwork
from .bridge import (
    COPY_ZONE,
    HOST_ZONE,
    IP,
    NODE_PORT_TABLE,
    NODE_PORT_ZONE,
    PROCESS_TABLE,
    TOO_BIG,
    ZONE,
    Bridge,
    connection_mark,
    packet_mark,
)
from .neighbour_flows import ADVERTISEMENT, SOLICITATION

_TRANSPORTS = {"TCP": {4: "tcp", 6: "tcp6"}, "UDP": {4: "udp", 6: "udp6"}, "SCTP": {4: "sctp", 6: "sctp6"}}
_IP, _SOURCE, _TARGET = {4: "ip", 6: "ipv6"}, {4: "nw_src", 6: "ipv6_src"}, {4: "nw_dst", 6: "ipv6_dst"}
# Answers come before what leaves with the node's address in local gateway mode (175).
_ANSWER, _NO_ANSWER, _ENTRANCE, _NO_ENTRANCE = 180, 115, 108, 107
# Table 1: after what belongs to a connection, and before what is for the host.
_NO_CONNECTION = 20
# Before the flows of `neighbour_flows.py`, and before those of the host's neighbour discovery.
_NEIGHBOURS = 560


def render_services(bridge: Bridge) -> None:
    """Add the flows of all Services that are reached from beyond their network."""
    has_answers = False
    inward: dict[str, set[str]] = {}
    by_network = {view.name: entrances(view) for view in bridge.views}
    for view in bridge.views:
        own = by_network[view.name]
        for entrance in own:
            if entrance.is_here:
                action = _inward(bridge, view, entrance)
                if entrance.kind != NODE_PORT:
                    inward.setdefault(entrance.address, set()).add(action)
            is_held = entrance.is_here and entrance.kind == LOAD_BALANCER and is_open_to_nodes(view, entrance)
            if is_held or entrance.kind == EXTERNAL:
                _routers_to_host(bridge, entrance)
                has_answers = True
        for entrance in further_entrances(view):
            _routers_to_host(bridge, entrance)
            has_answers = True
        if own:
            _from_host(bridge, view, own)
        _to_processes(bridge, view)
    _local_by_host(bridge, by_network)
    _too_big_by_node_port(bridge, by_network)
    if has_answers:
        _to_routers(bridge)
    leaving = leaving_addresses(bridge.plan, bridge.node)
    for address, actions in inward.items():
        _too_big(bridge, address, actions, with_replies=address in leaving)
    for address in held_load_balancer_addresses(bridge.plan, bridge.node):
        _only_entrances(bridge, address, with_replies=address in leaving)
        if family(address) == 4:
            _answer_routers(bridge, address)
        else:
            for view in bridge.views:
                _ask_host(bridge, view, address)


def _inward(bridge: Bridge, view: NodeNetwork, entrance: Entrance) -> str:
    """From the uplink to the gateway router and back; in local gateway mode the host keeps source addresses.

    Returns the action for what comes in.
    """
    version = entrance.version
    transport = _TRANSPORTS[entrance.protocol][version]
    request = (
        f"in_port={bridge.uplink}{bridge.in_vlan},{transport},{_TARGET[version]}={entrance.address},"
        f"tp_dst={entrance.number}"
    )
    through_host = _is_through_host(bridge, view, entrance)
    inward = bridge.to_host if through_host else f"output:{{{bridge.patch(view)}}}"
    outward = bridge.to_uplink
    if entrance.kind == NODE_PORT and not through_host:
        mark = f"exec(set_field:{connection_mark(view):#x}->ct_mark)"
        inward = f"ct(commit,zone={NODE_PORT_ZONE},{mark}),{inward}"
        outward = f"ct(zone={NODE_PORT_ZONE}),{outward}"
    for source in entrance.sources or ("",):
        match = f"{request},{_SOURCE[version]}={source}" if source else request
        bridge.add(0, _ENTRANCE, match, inward, view.name)
    if not through_host:
        answer = (
            f"in_port={{{bridge.patch(view)}}},dl_src={bridge.mac},{transport},"
            f"{_SOURCE[version]}={entrance.address},tp_src={entrance.number}"
        )
        bridge.add(0, _ANSWER, answer, outward, view.name)
    return inward


def _is_through_host(bridge: Bridge, view: NodeNetwork, entrance: Entrance) -> bool:
    """Whether packets to an entrance go through the host's kernel."""
    return entrance.is_local and (bridge.provider.is_local or process_of_node(view, entrance) is not None)


def _too_big_by_node_port(bridge: Bridge, own: dict[str, list[Entrance]]) -> None:
    """Lead path MTU discovery to the gateway router whose answer by a node port a message is about.

    Other messages go on as without these flows. `own` has the entrances by network. A message has the port in the
    packet that it embeds, which flows do not match.

    The zone of node ports comes first: the other way round the userspace datapath, which drops packets after more than
    six recirculations, does not lead the message to a workload of a Layer3 network.
    """
    addresses: dict[str, None] = {}
    for view in bridge.views:
        found = [one for one in own.get(view.name, ()) if one.kind == NODE_PORT]
        tracked = [one for one in found if not _is_through_host(bridge, view, one)]
        addresses.update(dict.fromkeys(one.address for one in tracked))
        for version in sorted({one.version for one in tracked}):
            match = f"{IP[version]},ct_state=+trk+rel,ct_mark={connection_mark(view):#x}"
            bridge.add(NODE_PORT_TABLE, 100, match, f"output:{{{bridge.patch(view)}}}", view.name)
    for address in addresses:
        version = family(address)
        match = f"in_port={bridge.uplink}{bridge.in_vlan},{TOO_BIG[version]},{_TARGET[version]}={address}"
        bridge.add(0, _ENTRANCE, match, f"ct(zone={NODE_PORT_ZONE},table={NODE_PORT_TABLE})")
    for version in sorted(set(map(family, addresses))):
        bridge.add(NODE_PORT_TABLE, 0, IP[version], f"ct(zone={ZONE},nat,table=1)")


def _too_big(bridge: Bridge, address: str, actions: set[str], *, with_replies: bool) -> None:
    """Lead path MTU discovery to all that answer with an address: only one of them knows the connection.

    As ovn-kubernetes's flow for each such address (`GenerateICMPFragmentationFlow`). A gateway router that does not
    know it sends the packet to the next hop, which has to go no further.

    Each gets a packet of its own: one that a gateway router has translated would go to the same address of the next
    network. Open vSwitch (3.5) copies for a clone whose own actions cannot be undone, as connection tracking cannot.

    `with_replies`: as for `_only_entrances`; what belongs to a connection of these goes where replies go.
    """
    version = family(address)
    to_address = f"{TOO_BIG[version]},{_TARGET[version]}={address}"
    own = sorted(actions)
    if len(own) > 1:
        own = [f"clone(ct(zone={COPY_ZONE}),{action})" for action in own]
    inward = ",".join(own)
    if with_replies:
        bridge.add(1, _NO_CONNECTION, f"{to_address}{bridge.in_vlan}", inward)
        inward = f"ct(zone={ZONE},nat,table=1)"
    bridge.add(0, _ENTRANCE, f"in_port={bridge.uplink}{bridge.in_vlan},{to_address}", inward)
    bridge.add(0, _NO_ANSWER, f"dl_src={bridge.mac}{bridge.in_vlan},{to_address}", "drop")


def _only_entrances(bridge: Bridge, address: str, *, with_replies: bool) -> None:
    """What else is sent to an address of a load balancer is not for the host, which has the address only for ARP.

    `with_replies`: but for replies to what endpoints have sent with that address (EgressService).
    """
    version = family(address)
    for names in _TRANSPORTS.values():
        to_address = f"{names[version]},{_TARGET[version]}={address}"
        match = f"in_port={bridge.uplink}{bridge.in_vlan},{to_address}"
        bridge.add(0, _NO_ENTRANCE, match, f"ct(zone={ZONE},nat,table=1)" if with_replies else "drop")
        if with_replies:
            bridge.add(1, _NO_CONNECTION, f"{to_address}{bridge.in_vlan}", "drop")
    bridge.add(
        0, _NO_ANSWER, f"{_IP[version]},dl_src={bridge.mac},{_TARGET[version]}={address}{bridge.in_vlan}", "drop"
    )


def _answer_routers(bridge: Bridge, address: str) -> None:
    """Answer gateway routers of this node that ask by ARP for an address of a load balancer that it has.

    They ask with the node's own address as source, to which the kernel sends no answer. One flow is for all of them.
    The answer has a MAC of its own: packets to the node's, which is the gateway routers' too, would not leave them.
    """
    match = f"arp,dl_src={bridge.mac},arp_op=1,arp_tpa={address}{bridge.in_vlan}"
    answer = (
        "move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[],set_field:2->arp_op,move:NXM_NX_ARP_SHA[]->NXM_NX_ARP_THA[],"
        f"move:NXM_OF_ARP_SPA[]->NXM_OF_ARP_TPA[],set_field:{mac_of_address(address)}->arp_sha,set_field:{address}->arp_spa,IN_PORT"
    )
    bridge.add(0, _NEIGHBOURS, match, answer)


def _ask_host(bridge: Bridge, view: NodeNetwork, address: str) -> None:
    """Let the kernel answer a gateway router that asks by neighbour discovery, under its masquerade address.

    Flows alone cannot answer: the kernel's datapath cannot set all fields of an advertisement (ovs-fields(7)).
    """
    if 6 not in view.network["families"]:
        return
    port, solicitation = f"in_port={{{bridge.patch(view)}}}", f"icmp6,icmp_type={SOLICITATION},icmp_code=0"
    own = bridge.masquerade(NodeNetwork.OVN_MASQUERADE, 6)
    if not view.is_default:
        own = next(item for item in view.masquerade_addresses(0) if family(item) == 6)
    question = f"set_field:{own}->ipv6_src,{bridge.to_host}"
    bridge.add(0, _NEIGHBOURS, f"{port},{solicitation},nd_target={address}{bridge.in_vlan}", question, view.name)
    answer = f"in_port=LOCAL,icmp6,icmp_type={ADVERTISEMENT},icmp_code=0,nd_target={address},ipv6_dst={own}"
    with_mac = f"set_field:{mac_of_address(address)}->nd_tll,{bridge.host_to_router[view.name]}"
    bridge.add(0, _NEIGHBOURS + 1, answer, with_mac, view.name)


def _from_host(bridge: Bridge, view: NodeNetwork, own: list[Entrance]) -> None:
    """From the host to the cluster IP that its kernel has translated to.

    User-defined networks have flows for their marks in any case. A userspace datapath does not see the kernel's marks;
    what comes from networks is dropped there before (priority 200).
    """
    if view.is_default:
        for version in sorted({one.version for one in own}):
            match = f"{_IP[version]},pkt_mark={packet_mark(view):#x}"
            bridge.add(2, 250, match, bridge.host_to_router[view.name], view.name)
    if not bridge.provider.userspace_interfaces:
        return
    for address in dict.fromkeys(one.cluster_ip for one in own):
        version = family(address)
        match = f"{_IP[version]},{_TARGET[version]}={address}"
        bridge.add(2, 150, match, bridge.host_to_router[view.name], view.name)


def _local_by_host(bridge: Bridge, own: dict[str, list[Entrance]]) -> None:
    """From the host to the endpoints of this node, of what came in by another NIC, with the client's address; and back.

    In local gateway mode it does not pass this bridge. The mark leads to the gateway router, fragments as well.
    """
    if bridge.provider.is_local:
        return
    found = [(view, one) for view in bridge.views for one in own[view.name] if one.is_local and local_port(one)]
    for version in sorted({one.version for _view, one in found}):
        address = bridge.masquerade(NodeNetwork.LOCAL_SERVICE_MASQUERADE, version)
        from_router = f"dl_src={bridge.mac}{bridge.in_vlan},{_IP[version]}"
        bridge.add(0, 500, f"in_port=LOCAL,{_IP[version]},{_TARGET[version]}={address}", "resubmit(,2)")
        bridge.add(0, _ANSWER, f"{from_router},{_SOURCE[version]}={address}", "resubmit(,3)")
        # What the host sends there and no Service is for: the default network's gateway router sends it on.
        bridge.add(0, _NO_ANSWER, f"{from_router},{_TARGET[version]}={address}", "drop")
        if not bridge.provider.next_hop(version):
            # The route that answers need then (`external.py`) leads all else here as well, to a MAC that no host has.
            dummy = mac_of_address(bridge.masquerade(NodeNetwork.DUMMY_NEXT_HOP, version))
            bridge.add(0, _NO_ANSWER, f"{from_router},dl_dst={dummy}", "drop")
        ports = {(view.name, one.protocol, local_port(one)) for view, one in found if one.version == version}
        for name, protocol, port in sorted(ports) if bridge.provider.userspace_interfaces else ():
            match = f"{_TRANSPORTS[protocol][version]},{_TARGET[version]}={address},tp_dst={port}"
            bridge.add(2, 150, match, bridge.host_to_router[name], name)


def _routers_to_host(bridge: Bridge, entrance: Entrance) -> None:
    """From all gateway routers of this node to an address that it accepts packets for.

    That are load balancer addresses that this host has, its node ports at other addresses, and external addresses,
    which every node with the network accepts: otherwise a router that leads an external address to this node would send
    such packets back with the node's own address as source, which gateway routers have as well. The flows do not name
    the senders, so that their number grows with Services and networks, and not with the product.
    """
    version = entrance.version
    match = (
        f"dl_src={bridge.mac}{bridge.in_vlan},{_TRANSPORTS[entrance.protocol][version]},"
        f"{_TARGET[version]}={entrance.address},tp_dst={entrance.number}"
    )
    for masquerade in bridge.subnets("masquerade_subnets", version):
        bridge.add(0, 500, f"{match},{_SOURCE[version]}={masquerade}", "resubmit(,3)")
    if version in bridge.default.network["families"]:
        for own in _addresses_of_default_router(bridge, version):
            asked = f"in_port={{{bridge.patch(bridge.default)}}},{match},{_SOURCE[version]}={own}"
            bridge.add(0, 500, asked, f"ct(commit,zone={HOST_ZONE},table=4)")


def _addresses_of_default_router(bridge: Bridge, version: int) -> list[str]:
    """Return what the default network's gateway router has translated sources to: the node's address and EgressIPs.

    Other networks' routers leave EgressIPs to the provider bridge.
    """
    egress = [address for _mark, address in held_marks(bridge.default) if family(address) == version]
    own = bridge.provider.address(version)
    return list(dict.fromkeys([*([own] if own else []), *egress]))


def _to_routers(bridge: Bridge) -> None:
    """From the host to the masquerade address of a gateway router: the answers to `_routers_to_host`.

    Whatever their protocol: a Service without endpoints answers UDP by ICMP.
    """
    for view in bridge.views:
        for own in () if view.is_default else view.masquerade_addresses(0):
            version = family(own)
            if version in view.network["families"]:
                match = f"in_port=LOCAL,{_IP[version]},{_TARGET[version]}={own}"
                bridge.add(0, 540, match, bridge.host_to_router[view.name], view.name)


def _to_processes(bridge: Bridge, view: NodeNetwork) -> None:
    """From a gateway router to endpoints that are processes of the node, and back.

    The host sees the masquerade address of the gateway router, which no other network has. The router has the host's
    masquerade address for an address that it has itself (`seen_from_router`). What the default network's sends to the
    host has flows in any case (`bridge_flows.py`). A family that the provider bridge has no address of leads nowhere.
    """
    if view.is_default:
        return
    own = {family(address): address for address in view.masquerade_addresses(0)}
    found = sorted(endpoints_beyond(view) & node_addresses(view))
    processes = [one for one in found if bridge.provider.address(family(one))]
    for address in (one for one in processes if one not in own_addresses(view)):
        asked = _from_router_to(bridge, view, own[family(address)], address)
        bridge.add(0, 500, asked, f"ct(commit,zone={HOST_ZONE},table=3)", view.name)
    for version in sorted({family(address) for address in processes}):
        host_side = bridge.masquerade(NodeNetwork.HOST_MASQUERADE, version)
        asked = _from_router_to(bridge, view, own[version], host_side)
        translate = f"ct(commit,zone={HOST_ZONE},nat(dst={bridge.provider.address(version)}),table=3)"
        bridge.add(0, 500, asked, translate, view.name)
        # Answers to `_routers_to_host` have no connection in that zone and remain as they are.
        answer = f"{_IP[version]},{_TARGET[version]}={own[version]}"
        bridge.add(0, 541, f"in_port=LOCAL,{answer}", f"ct(zone={HOST_ZONE},nat,table={PROCESS_TABLE})", view.name)
        bridge.add(PROCESS_TABLE, 0, answer, bridge.host_to_router[view.name], view.name)


def _from_router_to(bridge: Bridge, view: NodeNetwork, source: str, target: str) -> str:
    version = family(target)
    return f"in_port={{{bridge.patch(view)}}},{_IP[version]},{_SOURCE[version]}={source},{_TARGET[version]}={target}"
