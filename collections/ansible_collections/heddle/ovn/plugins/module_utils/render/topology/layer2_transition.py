# SPDX-License-Identifier: Apache-2.0
"""What a node with a transit router has in addition while others may still be without (OKEP-5094, "Rolling upgrade").

The join addresses are the only ones that both topologies know. A second port of the transit router on the switch has
the tunnel key and the MAC that the node's gateway router had there, so that the others find it as before; and through
it the transit router finds theirs. It stays until the clean-up: a node that has not yet heard of the last upgrade
still sends to the old tunnel key.
"""

from __future__ import annotations

import dataclasses

from ...common.addressing import family, nth_interface, prefix_length
from ...common.naming import layer2_switch, transit_router
from ...types.ovsdb_row import Row
from ..common.node_network import NodeNetwork, first_mac
from ..common.ovn_rows import peering, router_port
from .layer2_legacy import gateway_tunnel_key, join_host_routes, remote_gateway_port

# The last but one address of a join subnet. It is never a source or a target, it only makes the subnet known.
DUMMY_OFFSET = -2


def is_open(view: NodeNetwork) -> bool:
    """Return whether the old topology may still be somewhere."""
    return "gateway_tunnel_ids" in view.network


def upgrade_ports(view: NodeNetwork) -> list[Row]:
    """The transit router's second port on the switch; nothing after the clean-up."""
    if not is_open(view):
        return []
    on, name = transit_router(view.name), layer2_switch(view.name)
    port = f"trtos-{name}-upgrade"
    dummies = [nth_interface(subnet, DUMMY_OFFSET) for subnet in view.network["join_subnets"]]
    return [
        router_port(view, on, port, first_mac(view.join_interfaces()), dummies),
        peering(view, name, f"stotr-{name}-upgrade", port, {"requested-tnl-key": gateway_tunnel_key(view)}),
    ]


def on_link_join_subnets(view: NodeNetwork) -> dict:
    """Option of the gateway's own port on the switch: it answers for whatever nobody else answers for in IPv6.

    Gateway routers on the switch announce the join subnet as on-link, on all nodes and for ever, so workloads ask for
    join addresses that only the transit router knows by now. Those that run on ask after the clean-up, too.
    """
    subnets = [subnet for subnet in view.network["join_subnets"] if family(subnet) == 6]
    return {"arp_proxy": " ".join(subnets)} if view.network.get("join_subnets_on_link") and subnets else {}


def remembered_gateway_ports(view: NodeNetwork, remote: str) -> list[Row]:
    """The port of a gateway router that has left the switch, for workloads that remember its MAC as a neighbour's.

    Only where join addresses are on-link. The node's upgrade port has that MAC and tunnel key; the port here answers
    for no address, so whoever asks again hears of the transit router.
    """
    if not is_open(view) or not on_link_join_subnets(view):
        return []
    port = remote_gateway_port(view, remote)
    addresses = {first_mac(view.join_interfaces(remote))}
    return [dataclasses.replace(port, columns={**port.columns, "addresses": addresses})]


def masquerade_interfaces(view: NodeNetwork) -> list[str]:
    """Addresses that the gateway's own port holds while there are two ports, so that only this one answers for them."""
    if not is_open(view):
        return []
    return [
        f"{address}/{prefix_length(subnet)}"
        for address in view.masquerade_addresses(1)
        for subnet in view.settings["masquerade_subnets"]
        if family(subnet) == family(address)
    ]


def gateway_router_on_switch(view: NodeNetwork, remote: str) -> list[Row]:
    """A node that is not upgraded, as seen from one that is."""
    return [remote_gateway_port(view, remote), *join_host_routes(view, transit_router(view.name), remote)]
