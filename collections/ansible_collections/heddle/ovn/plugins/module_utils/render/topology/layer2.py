# SPDX-License-Identifier: Apache-2.0
"""Layer2 topology: one switch across all zones; a primary network leaves through a transit router (OKEP-5094)."""

from __future__ import annotations

from ...common.addressing import family, plain
from ...common.naming import EXTERNAL_ID_NODE, ROUTER_MARK, gateway_router, layer2_switch, transit_router
from ...types.ovsdb_row import Row
from ..common.node_network import NodeNetwork, first_mac, switch_config
from ..common.overlay import carries_ingress_port, transit_options
from ..common.ovn_rows import balanced, gateway_chassis, peering, route, router, router_port, switch
from ..gateway.external import render_external
from ..gateway.routers import (
    MAC_LEARNING,
    gateway_router_row,
    inner_router_options,
    management_rows,
    outward_routes,
)
from .layer2_legacy import has_transit_router, render_gateway_routers, router_advertisement
from .layer2_transition import (
    gateway_router_on_switch,
    masquerade_interfaces,
    on_link_join_subnets,
    remembered_gateway_ports,
    upgrade_ports,
)

# The same in every zone: the transit router's port on the switch, then one port per node (ovn-kubernetes).
SWITCH_PORT_KEY = 1
NODE_PORT_KEY_BASE = 10


def render_layer2(view: NodeNetwork) -> list[Row]:
    """Rows of a Layer2 network in this node's zone, without its workloads."""
    rows = [_switch(view)]
    if view.is_primary and not has_transit_router(view):
        rows += render_gateway_routers(view)
    elif view.is_primary:
        rows += _transit_router(view) + _gateway(view) + upgrade_ports(view)
        for remote in view.remotes:
            remote_rows = _remote_gateway if has_transit_router(view, remote) else gateway_router_on_switch
            rows += remote_rows(view, remote)
        name = layer2_switch(view.name)
        rows += management_rows(view, name, transit_router(view.name), f"trtos-{name}")
        rows += render_external(view)
    return rows


def _switch(view: NodeNetwork) -> Row:
    name = layer2_switch(view.name)
    config = {
        **switch_config(view.subnets()),
        "interconn-ts": name,
        **transit_options(view.plan),
        "requested-tnl-key": str(view.network["tunnel_keys"][0]),
        "mcast_snoop": "true",
        "mcast_querier": "false",
        "mcast_flood_unregistered": "true",
    }
    return switch(view, name, config, view.external_ids(role=True), **balanced(view))


def _transit_router(view: NodeNetwork) -> list[Row]:
    """Transit router and its port on the switch, which has the same gateway addresses in every zone."""
    on, name = transit_router(view.name), layer2_switch(view.name)
    port = f"trtos-{name}"
    gateways = view.gateway_interfaces()
    networks = gateways + masquerade_interfaces(view)
    options = {"requested-tnl-key": str(SWITCH_PORT_KEY), "gateway_mtu": str(view.network["mtu"])}
    return [
        router(
            view,
            on,
            {
                "requested-tnl-key": str(view.network["tunnel_keys"][1]),
                **MAC_LEARNING,
                **inner_router_options(view),
            },
            {ROUTER_MARK: "yes", **view.external_ids()},
        ),
        router_port(view, on, port, first_mac(gateways), networks, options, **router_advertisement(view)),
        gateway_chassis(view, port),
        peering(view, name, f"stotr-{name}", port, on_link_join_subnets(view)),
    ]


def _gateway(view: NodeNetwork) -> list[Row]:
    """Gateway router of this node, its pair of ports with the transit router, and the routes of both."""
    on, name = transit_router(view.name), gateway_router(view.name, view.node)
    inner, outer = f"trtor-{name}", f"rtotr-{name}"
    pairs = view.transit_pairs()
    join = view.join_interfaces()
    transit_side, gateway_side = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    key = str(NODE_PORT_KEY_BASE + view.node_id())
    rows = [
        gateway_router_row(view),
        router_port(view, on, inner, first_mac(transit_side), transit_side, {"requested-tnl-key": key}, peer=outer),
        router_port(
            view, name, outer, view.gateway_router_mac(), join + gateway_side,
            {"gateway_mtu": str(view.outward_mtu)}, peer=inner,
        ),
    ]  # fmt: skip
    rows += _join_routes(view, on, join, gateway_side, view.external_ids())
    rows += outward_routes(view, on, gateway_side)
    for subnet in view.subnets():
        for transit_address, _gateway_address in pairs:
            if family(subnet) == family(transit_address):
                rows.append(route(view, name, subnet, transit_address, output_port=outer))
    return rows


def _remote_gateway(view: NodeNetwork, remote: str) -> list[Row]:
    """Another node's port of the same transit router, and the route to its join addresses."""
    on = transit_router(view.name)
    pairs = view.transit_pairs(remote)
    transit_side, gateway_side = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    ids = {**view.external_ids(), EXTERNAL_ID_NODE: remote}
    options = {
        "requested-tnl-key": str(NODE_PORT_KEY_BASE + view.node_id(remote)),
        "requested-chassis": view.chassis(remote),
    }
    name = f"trtor-{gateway_router(view.name, remote)}"
    return [
        router_port(view, on, name, first_mac(transit_side), transit_side, options, external_ids=ids),
        *_join_routes(view, on, view.join_interfaces(remote), gateway_side, ids),
        *_neighbours(view, remote, name, gateway_side),
        *remembered_gateway_ports(view, remote),
    ]


def _neighbours(view: NodeNetwork, remote: str, port: str, gateway_side: list[str]) -> list[Row]:
    """Another node's gateway router as a static neighbour, where the transit router cannot resolve its addresses.

    ovn-controller passes the answer to the ingress pipeline, which drops what comes from no port
    (OVN, `physical.c`, `put_remote_chassis_flood_encap`).
    """
    if carries_ingress_port(view.plan):
        return []
    mac = view.gateway_router_mac(remote)
    return [
        Row(
            "Static_MAC_Binding",
            f"{port} {plain(interface)}",
            {"logical_port": port, "ip": plain(interface), "mac": mac, "override_dynamic_mac": True},
            view.name,
        )
        for interface in gateway_side
    ]


def _join_routes(view: NodeNetwork, on: str, join: list[str], gateway_side: list[str], external_ids: dict) -> list[Row]:
    return [
        route(view, on, plain(address), nexthop, external_ids=external_ids)
        for address in join
        for nexthop in gateway_side
        if family(address) == family(nexthop)
    ]
