# SPDX-License-Identifier: Apache-2.0
"""Load balancers of the shared services.

Names, options and scopes as ovn-kubernetes's load balancers: one for the node's switch, one for its gateway router,
where the host's masquerade address stands for an endpoint that is the node itself.
"""

from __future__ import annotations

from ...common.addressing import family, plain
from ...common.naming import DEFAULT_NETWORK, gateway_router, node_switch
from ...types.ovsdb_row import Parent, Row
from ..common.node_network import NodeNetwork
from ..common.ovn_rows import ROUTER, SWITCH
from .load_balancer_options import options_of, socket
from .network_services import seen_from_router


def render_services(view: NodeNetwork) -> list[Row]:
    """Return the node's load balancers; `view` is of the default network."""
    rows = []
    for service in view.settings.get("shared_services", []):
        for protocol in sorted({port["protocol"] for port in service["ports"]}):
            ports = [port for port in service["ports"] if port["protocol"] == protocol]
            rows += [
                _load_balancer(view, service, protocol, ports, scope, parent)
                for scope, parent in (
                    ("node_switch", Parent(SWITCH, node_switch(view.name, view.node), "load_balancer")),
                    ("node_router", Parent(ROUTER, gateway_router(view.name, view.node), "load_balancer")),
                )
            ]
    return rows


def _load_balancer(
    view: NodeNetwork, service: dict, protocol: str, ports: list[dict], scope: str, parent: Parent
) -> Row:
    name = f"Service_{service['name']}_{protocol}_{scope}_{view.node}"
    version = family(service["address"])
    endpoints = [address for text in service["endpoints"] for address in _addresses(view, text, version)]
    if scope == "node_router":
        endpoints = [seen_from_router(view, address) for address in endpoints]
    vips = {
        socket(service["address"], port["port"]): ",".join(
            socket(address, port.get("target", port["port"])) for address in endpoints
        )
        for port in ports
    }
    columns = {
        "name": f"{name}_IPv6" if version == 6 else name,
        "protocol": protocol.lower(),
        "vips": vips,
        "options": options_of(view, protocol, vips),
        "external_ids": {"k8s.ovn.org/kind": "Service", "k8s.ovn.org/owner": service["name"]},
    }
    return Row("Load_Balancer", columns["name"], columns, view.name, parent)


def _addresses(view: NodeNetwork, text: str, version: int) -> list[str]:
    """Return an endpoint's addresses of a family; a workload's are those on the default network."""
    workload = view.plan["workloads"].get(text)
    if workload is None:
        return [] if "/" in text else [text]
    return [
        plain(address)
        for interface in workload["interfaces"]
        if interface["network"] == DEFAULT_NETWORK
        for address in interface["addresses"]
        if family(address) == version
    ]
