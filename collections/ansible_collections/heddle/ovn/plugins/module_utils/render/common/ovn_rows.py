# SPDX-License-Identifier: Apache-2.0
"""Builds the rows that all topologies use: switches, routers, ports, routes.

Keys of rows are the names that OVN shows, so a change list reads like `ovn-nbctl show`.
"""

from __future__ import annotations

from ...common.addressing import plain
from ...common.naming import load_balancer_group
from ...types.ovsdb_row import Parent, Ref, Row
from .node_network import NodeNetwork

SWITCH, SWITCH_PORT = "Logical_Switch", "Logical_Switch_Port"
ROUTER, ROUTER_PORT = "Logical_Router", "Logical_Router_Port"
LOAD_BALANCER_GROUP = "Load_Balancer_Group"
COPP_NAME = "ovnkube-default"


def balanced(view: NodeNetwork) -> dict:
    """Return the columns of a switch or router that the network's Services are reached through."""
    if not view.has_load_balancer_group:
        return {}
    return {"load_balancer_group": {Ref(LOAD_BALANCER_GROUP, load_balancer_group(view.name))}}


def switch(view: NodeNetwork, name: str, other_config: dict, external_ids: dict, **columns) -> Row:
    """Logical switch; further columns by name."""
    columns = {"name": name, "other_config": other_config, "external_ids": external_ids, **columns}
    return Row(SWITCH, name, columns, view.name)


def router(view: NodeNetwork, name: str, options: dict, external_ids: dict, **columns) -> Row:
    """Logical router under the shared control plane protection; further columns by name."""
    values = {"name": name, "options": options, "external_ids": external_ids, "copp": Ref("Copp", COPP_NAME), **columns}
    return Row(ROUTER, name, values, view.name)


def router_port(
    view: NodeNetwork, on: str, name: str, mac: str, networks: list[str], options: dict | None = None, **columns
) -> Row:
    """Logical router port; further columns by name."""
    values = {
        "name": name,
        "mac": mac,
        "networks": set(networks),
        "options": options or {},
        "external_ids": view.external_ids(),
        **columns,
    }
    return Row(ROUTER_PORT, name, values, view.name, Parent(ROUTER, on, "ports"))


def switch_port(view: NodeNetwork, on: str, name: str, external_ids: dict | None = None, **columns) -> Row:
    """Logical switch port; further columns by name."""
    values = {"name": name, "external_ids": view.external_ids() if external_ids is None else external_ids, **columns}
    return Row(SWITCH_PORT, name, values, view.name, Parent(SWITCH, on, "ports"))


def vlan_columns(vlan: int | None) -> dict:
    """Return the columns of a localnet port that tag its frames, or leave them untagged.

    Both: northd copies the request to the tag one run after it has made the port's Southbound row (ovn-nb(5)), and
    until then ovn-controller would connect the networks untagged.
    """
    tag = set() if vlan is None else {vlan}
    return {"tag_request": tag, "tag": tag}


def peering(
    view: NodeNetwork, on: str, name: str, router_port_name: str, options: dict | None = None, **columns
) -> Row:
    """Switch port that leads to a router port."""
    return switch_port(
        view, on, name, type="router", addresses={"router"},
        options={"router-port": router_port_name, **(options or {})}, **columns,
    )  # fmt: skip


def gateway_chassis(view: NodeNetwork, port: str) -> Row:
    """Bind a router port to this node, which makes NAT on it reside here."""
    name = f"{port}-{view.chassis()}"
    columns = {"name": name, "chassis_name": view.chassis(), "priority": 1}
    return Row("Gateway_Chassis", name, columns, view.name, Parent(ROUTER_PORT, port, "gateway_chassis"))


def route(
    view: NodeNetwork,
    on: str,
    prefix: str,
    nexthop: str,
    *,
    source: bool = False,
    output_port: str | None = None,
    external_ids: dict | None = None,
) -> Row:
    """Static route; `source` makes it match the source address instead of the destination."""
    columns = {
        "ip_prefix": prefix,
        "nexthop": plain(nexthop),
        "policy": "src-ip" if source else "dst-ip",
        "external_ids": view.external_ids() if external_ids is None else external_ids,
        "output_port": output_port if output_port else set(),
    }
    key = f"{on} {columns['policy']} {prefix}"
    return Row("Logical_Router_Static_Route", key, columns, view.name, Parent(ROUTER, on, "static_routes"))


def policy(view: NodeNetwork, on: str, priority: int, match: str, nexthop: str) -> Row:
    """Policy that sends matching packets to a next hop."""
    return _policy(view, on, priority, match, action="reroute", nexthops={nexthop})


def allow(view: NodeNetwork, on: str, priority: int, match: str) -> Row:
    """Policy that leaves matching packets to the routes."""
    return _policy(view, on, priority, match, action="allow")


def _policy(view: NodeNetwork, on: str, priority: int, match: str, **columns: object) -> Row:
    columns = {"priority": priority, "match": match, **columns, "external_ids": view.external_ids()}
    key = f"{on} {priority} {match}"
    return Row("Logical_Router_Policy", key, columns, view.name, Parent(ROUTER, on, "policies"))
