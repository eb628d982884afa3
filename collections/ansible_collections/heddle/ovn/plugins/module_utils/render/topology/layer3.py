# SPDX-License-Identifier: Apache-2.0
"""Layer3 topology: one switch per node, one cluster router per zone, zones joined by a transit switch.

OKEP-5193, "Layer 3 Network"; the default network is one of these.
"""

from __future__ import annotations

from ...common.addressing import family, host_route, mac_of_address, plain
from ...common.naming import (
    ROUTER_MARK,
    cluster_router,
    gateway_router,
    join_switch,
    node_switch,
    transit_router_port,
    transit_switch,
    transit_switch_port,
)
from ...types.ovsdb_row import Row
from ..common.node_network import NodeNetwork, first_mac, switch_config
from ..common.overlay import transit_options
from ..common.ovn_rows import balanced, gateway_chassis, peering, route, router, router_port, switch, switch_port
from ..gateway.external import render_external
from ..gateway.routers import gateway_router_row, inner_router_options, management_rows, outward_routes


def render_layer3(view: NodeNetwork) -> list[Row]:
    """Rows of a Layer3 network in this node's zone, without its workloads."""
    rows = _router_and_switch(view) + _transit(view)
    if view.is_primary:
        rows += _join(view)
        inward = f"rtos-{node_switch(view.name, view.node)}"
        rows += management_rows(view, node_switch(view.name, view.node), cluster_router(view.name), inward)
        rows += render_external(view)
    return rows


def _router_and_switch(view: NodeNetwork) -> list[Row]:
    name, on = node_switch(view.name, view.node), cluster_router(view.name)
    rtos, stor = f"rtos-{name}", f"stor-{name}"
    gateways = view.gateway_interfaces()
    config = switch_config(view.subnets())
    if view.is_primary and "subnet" in config:
        config["exclude_ips"] = view.management_addresses()[0]
    router_ids = {ROUTER_MARK: "yes", **view.external_ids()}
    rows = [
        router(view, on, {"always_learn_from_arp_request": "false", **inner_router_options(view)}, router_ids),
        switch(view, name, config, view.external_ids(role=True), **balanced(view)),
        router_port(view, on, rtos, first_mac(gateways), gateways, {"gateway_mtu": str(view.network["mtu"])}),
        peering(view, name, stor, rtos),
    ]
    if view.is_primary:
        rows.append(gateway_chassis(view, rtos))
    return rows


def _join(view: NodeNetwork) -> list[Row]:
    """Join switch, gateway router and the routes between it and the cluster router."""
    on, name, join = cluster_router(view.name), gateway_router(view.name, view.node), join_switch(view.name)
    inner, outer = view.join_router_interfaces(), view.join_interfaces()
    rows = [
        switch(view, join, {}, view.external_ids()),
        router_port(view, on, f"rtoj-{on}", first_mac(inner), inner),
        peering(view, join, f"jtor-{on}", f"rtoj-{on}"),
        gateway_router_row(view),
        router_port(
            view, name, f"rtoj-{name}", view.gateway_router_mac(), outer, {"gateway_mtu": str(view.outward_mtu)}
        ),
        peering(view, join, f"jtor-{name}", f"rtoj-{name}"),
    ]
    rows += [route(view, on, plain(address), address) for address in outer]
    rows += outward_routes(view, on, outer)
    for subnet in view.network["subnets"]:
        rows += [route(view, name, subnet, address) for address in inner if family(address) == family(subnet)]
    return rows


def _transit(view: NodeNetwork) -> list[Row]:
    """Transit switch with a port per node, and the routes to the subnets of the others."""
    on, name = cluster_router(view.name), transit_switch(view.name)
    interfaces = view.transit_interfaces()
    config = {
        "interconn-ts": name,
        **transit_options(view.plan),
        "requested-tnl-key": str(view.network["tunnel_keys"][0]),
        "mcast_snoop": "true",
        "mcast_querier": "false",
        "mcast_flood_unregistered": "true",
    }
    inner, outer = transit_router_port(view.name, view.node), transit_switch_port(view.name, view.node)
    rows = [
        switch(view, name, config, view.external_ids(role=True)),
        router_port(view, on, inner, first_mac(interfaces), interfaces, {"mcast_flood": "true"}, external_ids={}),
        switch_port(
            view, name, outer, {"node": view.node, **view.external_ids()}, type="router", addresses={"router"},
            options={"router-port": inner, "requested-tnl-key": str(view.node_id())},
        ),
    ]  # fmt: skip
    for remote in view.remotes:
        rows += _remote_node(view, on, name, remote)
    return rows


def _remote_node(view: NodeNetwork, on: str, transit: str, remote: str) -> list[Row]:
    interfaces = view.transit_interfaces(remote)
    rows = [
        switch_port(
            view,
            transit,
            transit_switch_port(view.name, remote),
            {"node": remote, **view.external_ids()},
            type="remote",
            addresses={" ".join([mac_of_address(interfaces[0]), *interfaces])},
            options={"requested-tnl-key": str(view.node_id(remote)), "requested-chassis": view.chassis(remote)},
        )
    ]
    destinations = list(view.subnets(remote))
    if view.is_primary:
        destinations += [host_route(address) for address in view.join_interfaces(remote)]
    ids = {"ic-node": remote, **view.external_ids()}
    for destination in destinations:
        rows += [
            route(view, on, destination, interface, external_ids=ids)
            for interface in interfaces
            if family(interface) == family(destination)
        ]
    return rows
