# SPDX-License-Identifier: Apache-2.0
"""Compatibility of a transit router with nodes that are not upgraded yet (OKEP-5094, "Rolling upgrade").

The join addresses are common to both topologies. A second port of the transit router on the switch has
the tunnel key and the MAC that the node's gateway router had there, so that the others reach it as before; and through
it the transit router reaches theirs. It stays until the clean-up: a node that has not received the last plan
still sends to the old tunnel key.
"""

from __future__ import annotations

import dataclasses

from ...common.addressing import family, host_route, nth_interface, prefix_length
from ...common.naming import layer2_switch, transit_router
from ...types.ovsdb_row import Row
from ..common.node_network import NodeNetwork
from ..common.ovn_rows import peering, router_port
from .layer2_legacy import gateway_tunnel_key, join_host_routes, remote_gateway_port

# The last but one address of a join subnet. Never a source or a destination, it only makes the subnet on-link.
DUMMY_OFFSET = -2


def is_open(view: NodeNetwork) -> bool:
    """Return whether nodes may still have the old topology."""
    return "gateway_tunnel_ids" in view.network


def upgrade_ports(view: NodeNetwork) -> list[Row]:
    """The transit router's second port on the switch; nothing after the clean-up."""
    if not is_open(view):
        return []
    on, name = transit_router(view.name), layer2_switch(view.name)
    port = f"trtos-{name}-upgrade"
    dummies = [nth_interface(subnet, DUMMY_OFFSET) for subnet in view.network["join_subnets"]]
    return [
        router_port(view, on, port, view.gateway_router_mac(), dummies),
        peering(view, name, f"stotr-{name}-upgrade", port, {"requested-tnl-key": gateway_tunnel_key(view)}),
    ]


def on_link_join_subnets(view: NodeNetwork) -> dict:
    """Option of the gateway's port on the switch: it answers neighbour solicitations that no other port answers.

    Gateway routers on the switch announce the join subnet as on-link with infinite lifetime, on all nodes, so workloads
    resolve join addresses that now only the transit router has. Running workloads do so after the clean-up, too.
    """
    subnets = [subnet for subnet in view.network["join_subnets"] if family(subnet) == 6]
    return {"arp_proxy": " ".join(subnets)} if view.network.get("join_subnets_on_link") and subnets else {}


def remembered_gateway_ports(view: NodeNetwork, remote: str) -> list[Row]:
    """The port of a gateway router that has left the switch, for workloads with its MAC in their neighbour cache.

    Only where join addresses are on-link. The node's upgrade port has that MAC and tunnel key; the port here answers
    for no address, so a new solicitation is answered with the transit router.
    """
    if not is_open(view) or not on_link_join_subnets(view):
        return []
    port = remote_gateway_port(view, remote)
    addresses = {view.gateway_router_mac(remote)}
    return [dataclasses.replace(port, columns={**port.columns, "addresses": addresses})]


def masquerade_interfaces(view: NodeNetwork) -> list[str]:
    """Addresses of the gateway's own port while there are two ports, so that only this one answers for them.

    Those of IPv6 have no subnet: the port's router advertisements declare its subnets as on-link, forever (RFC 4861,
    section 4.6.2). Workloads would look for the source address of a Service that they reach themselves
    through there, instead of sending their answer to the gateway.
    """
    if not is_open(view):
        return []
    return [
        host_route(address) if family(address) == 6 else f"{address}/{prefix_length(subnet)}"
        for address in view.masquerade_addresses(1)
        for subnet in view.settings["masquerade_subnets"]
        if family(subnet) == family(address)
    ]


def gateway_router_on_switch(view: NodeNetwork, remote: str) -> list[Row]:
    """A node that is not upgraded, as rendered on an upgraded one."""
    return [remote_gateway_port(view, remote), *join_host_routes(view, transit_router(view.name), remote)]
