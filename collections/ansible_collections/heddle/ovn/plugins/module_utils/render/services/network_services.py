# SPDX-License-Identifier: Apache-2.0
"""Load balancers of the Services of a network.

Names, options and scopes as in ovn-kubernetes: a Service that every node treats alike has one load balancer for each
protocol, in a group that the network's switch and gateway router share. One whose targets depend on the node has one
for its switch and one for its gateway router. Only switches and routers of its network have them, so other networks do
not reach it.
"""

from __future__ import annotations

from ...common.addressing import family, network_of, nth_address, plain
from ...common.naming import (
    EXTERNAL_ID_NETWORK,
    EXTERNAL_ID_ROLE,
    gateway_router,
    layer2_switch,
    load_balancer_group,
    node_switch,
    prefix,
)
from ...types.ovsdb_row import Parent, Row
from ..common.node_network import NodeNetwork, is_of_node
from ..common.ovn_rows import LOAD_BALANCER_GROUP, ROUTER, SWITCH
from .load_balancer_options import OPTIONS, hairpin_options, socket

# OVN keeps affinity for less than a day; the longest timeout of Kubernetes means that it never ends.
_ENDLESS = 86400


def render_network_services(view: NodeNetwork) -> list[Row]:
    """Return the load balancers of a network's Services on this node, and the group of those alike on all nodes."""
    rows = []
    group = load_balancer_group(view.name)
    if view.has_load_balancer_group:
        rows.append(Row(LOAD_BALANCER_GROUP, group, {"name": group}, view.name))
    shared = Parent(LOAD_BALANCER_GROUP, group, "load_balancer")
    layer3 = view.network["topology"] == "Layer3"
    switch = node_switch(view.name, view.node) if layer3 else layer2_switch(view.name)
    router = gateway_router(view.name, view.node)
    own = (
        (f"node_switch_{view.node}", Parent(SWITCH, switch, "load_balancer")),
        (f"node_router_{view.node}", Parent(ROUTER, router, "load_balancer")),
    )
    for name, service in view.services.items():
        for protocol in sorted({port["protocol"] for port in service["ports"]}):
            scopes = own if is_of_node(view.network, service) else (("cluster", shared),)
            rows += [_load_balancer(view, name, service, protocol, scope, parent) for scope, parent in scopes]
    return rows


def _load_balancer(
    view: NodeNetwork, service_name: str, service: dict, protocol: str, scope: str, parent: Parent
) -> Row:
    name = f"{prefix(view.name)}Service_{service_name}_{protocol}_{scope}"
    options = {**OPTIONS, **hairpin_options(view)}
    columns = {
        "name": name,
        "protocol": protocol.lower(),
        "vips": {
            socket(address, port["port"]): ",".join(_targets(view, service, port, parent, family(address)))
            for port in service["ports"]
            if port["protocol"] == protocol
            for address in service["addresses"]
        },
        "options": options,
        "external_ids": _external_ids(view, service_name),
    }
    if 0 < service["affinity"] < _ENDLESS:
        options["affinity_timeout"] = str(service["affinity"])
    elif service["affinity"]:
        columns["selection_fields"] = {"ip_src", "ip_dst"}
    return Row("Load_Balancer", name, columns, view.name, parent)


def _external_ids(view: NodeNetwork, service_name: str) -> dict:
    ids = {"k8s.ovn.org/kind": "Service", "k8s.ovn.org/owner": service_name}
    return ids if view.is_default else {**ids, EXTERNAL_ID_NETWORK: view.name, EXTERNAL_ID_ROLE: "primary"}


def _targets(view: NodeNetwork, service: dict, port: dict, parent: Parent, version: int) -> list[str]:
    """Return the endpoints of one family; none rejects connections."""
    is_local = service["internal_traffic_policy"] == "Local" and parent.table == SWITCH
    return [
        socket(seen_from_router(view, one["address"]) if parent.table == ROUTER else one["address"], one["port"])
        for one in port["endpoints"]
        if family(one["address"]) == version and not (is_local and one["node"] != view.node)
    ]


def seen_from_router(view: NodeNetwork, address: str) -> str:
    """A gateway router has the node's own addresses, so it cannot send packets to the node by them."""
    own = {plain(item) for item in view.provider.addresses} if view.provider else set()
    if address not in own:
        return address
    subnet = next(item for item in view.masquerade_subnets() if network_of(item).version == family(address))
    return nth_address(subnet, NodeNetwork.HOST_MASQUERADE)
