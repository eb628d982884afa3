# SPDX-License-Identifier: Apache-2.0
"""Layer2 primary networks before the transit router: every node's gateway router is on the switch itself.

All of them have the gateway's address, each with its own MAC; a workload reaches only the one of its node, because
the zone has only the join addresses of the others (OKEP-5094, "Layer2 default gw discovery at VMs").
"""

from __future__ import annotations

import dataclasses
import ipaddress

from ...common.addressing import family, plain
from ...common.naming import EXTERNAL_ID_NODE, TRANSIT_ROUTER, gateway_router, layer2_switch
from ...types.ovsdb_row import Row
from ..common.node_network import NodeNetwork
from ..common.ovn_rows import allow, peering, policy, route, router_port, switch_port
from ..gateway.external import render_external
from ..gateway.routers import gateway_router_row, management_rows, outward_routes

NODE_POLICY_PRIORITY = 99
# Before what EgressIPs have.
ANSWER_PRIORITY = 103


def has_transit_router(view: NodeNetwork, node: str | None = None) -> bool:
    """Return whether a node has the newer topology; a node of an older plan without the field has it."""
    return view.plan["nodes"][node or view.node].get("layer2_topology_version", TRANSIT_ROUTER) == TRANSIT_ROUTER


def gateway_tunnel_key(view: NodeNetwork, node: str | None = None) -> str:
    """Return the tunnel key that a node's gateway router has on the switch in all zones."""
    return str(view.network["gateway_tunnel_ids"][node or view.node])


def router_advertisement(view: NodeNetwork) -> dict:
    """Return the column that enables router advertisements on the gateway's port; nothing in a network without IPv6."""
    if 6 not in view.network["families"]:
        return {}
    # LOW: the workload's configured routes have preference MEDIUM and must win.
    return {
        "ipv6_ra_configs": {
            "address_mode": "dhcpv6_stateful",
            "send_periodic": "true",
            "max_interval": "900",
            "min_interval": "300",
            "router_preference": "LOW",
            "mtu": str(view.network["mtu"]),
        }
    }


def render_gateway_routers(view: NodeNetwork) -> list[Row]:
    """This node's gateway router on the switch, and the other nodes' as remote ports."""
    name, on = gateway_router(view.name, view.node), layer2_switch(view.name)
    port = f"rtos-{on}"
    join = view.join_interfaces()
    networks = join + view.gateway_interfaces()
    options = {"gateway_mtu": str(view.outward_mtu)}
    rows = [
        gateway_router_row(view),
        router_port(view, name, port, view.gateway_router_mac(), networks, options, **router_advertisement(view)),
        peering(view, on, f"stor-{on}", port, {"requested-tnl-key": gateway_tunnel_key(view)}),
        *outward_routes(view, name, [], _sources(view)),
        *management_rows(view, on, name, port),
        *_external(view, name),
    ]
    for remote in view.remotes:
        rows.append(remote_gateway_port(view, remote))
    if view.provider and view.provider.is_local:
        rows += _local_gateway(view, name)
    return rows


def remote_gateway_port(view: NodeNetwork, remote: str) -> Row:
    """Another node's gateway router on the switch: a remote port that answers for its join addresses."""
    on, join = layer2_switch(view.name), view.join_interfaces(remote)
    options = {"requested-tnl-key": gateway_tunnel_key(view, remote), "requested-chassis": view.chassis(remote)}
    addresses = {" ".join([view.gateway_router_mac(remote), *join])}
    ids = {**view.external_ids(), EXTERNAL_ID_NODE: remote}
    return switch_port(view, on, f"stor-{on}_{remote}", ids, type="remote", addresses=addresses, options=options)


def join_host_routes(view: NodeNetwork, on: str, remote: str) -> list[Row]:
    """Routes to another node's join addresses over the switch.

    Next hop and prefix are the same address: the prefix is longer than that of any source route, which would otherwise
    take precedence and send the packet elsewhere (OKEP-5094, "Egress/Ingress traffic over remote node").
    """
    return [route(view, on, plain(address), address) for address in view.join_interfaces(remote)]


def _external(view: NodeNetwork, name: str) -> list[Row]:
    """External connectivity; NAT applies only to leaving traffic: the router also serves the management port."""
    match = f'outport == "rtoe-{name}"'
    return [
        dataclasses.replace(row, columns={"match": match, **row.columns}) if row.table == "NAT" else row
        for row in render_external(view)
    ]


def _local_gateway(view: NodeNetwork, name: str) -> list[Row]:
    """Additions of local gateway mode: the node's subnet is reached through the node, joined routers directly."""
    rows = [row for remote in view.remotes for row in join_host_routes(view, name, remote)]
    rows += [policy(view, name, NODE_POLICY_PRIORITY, match, hop) for hop, match in to_provider_networks(view)]
    return rows + _answers(view, name)


def _sources(view: NodeNetwork) -> list[str]:
    """Return the prefixes of source routes: the node's subnets, or shorter ones around them.

    Of routes by source and by destination the longer prefix wins (ovn-nb(5), "policy"). Those to masquerade addresses,
    a /17 of IPv4, have to: Services see processes of the node and other networks with such addresses.
    """
    longest = {family(one): ipaddress.ip_network(one).prefixlen - 1 for one in view.masquerade_subnets()}
    found = []
    for subnet in map(ipaddress.ip_network, view.subnets()):
        bits = min(subnet.prefixlen, longest.get(subnet.version, subnet.prefixlen))
        found.append(str(subnet.supernet(new_prefix=bits)))
    return found


def _answers(view: NodeNetwork, name: str) -> list[Row]:
    """Answers of connections that came in by the provider bridge leave by it, and not through the node.

    The gateway router has translated these connections to its own address (`lb_force_snat_ip`), so answers have the
    state of their connection when its policies are evaluated (OVN, `northd.c`, lr_in_unsnat). Those of connections that
    came through the management port have none.
    """
    rows = []
    for version in view.network["families"]:
        sources = [one for one in view.subnets() if family(one) == version]
        own = next((one for one in view.provider.addresses if family(one) == version), None)
        hop = view.provider.next_hop(version)
        inside = [*view.network["subnets"], *view.network["join_subnets"], *view.masquerade_subnets()]
        near = [one for one in inside if family(one) == version]
        near += [str(ipaddress.ip_interface(own).network)] if own else []
        for source in sources:
            match = f"ct.trk && ct.rpl && ip{version}.src == {source}"
            rows.append(allow(view, name, ANSWER_PRIORITY + 1, f"{match} && ip{version}.dst == {{{', '.join(near)}}}"))
            if hop:
                rows.append(policy(view, name, ANSWER_PRIORITY, match, hop))
    return rows


def to_provider_networks(view: NodeNetwork) -> list[tuple[str, str]]:
    """Return the node's address in the network and the match of packets from its workloads to a provider network."""
    found = []
    for address in view.management_addresses():
        version = family(address)
        own = next((item for item in view.provider.addresses if family(item) == version), None)
        for subnet in view.subnets():
            if own and family(subnet) == version:
                provider = ipaddress.ip_interface(own).network
                found.append((address, f"ip{version}.dst == {provider} && ip{version}.src == {subnet}"))
    return found
