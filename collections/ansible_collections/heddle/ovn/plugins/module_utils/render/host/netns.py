# SPDX-License-Identifier: Apache-2.0
"""Renders workloads as network namespaces with links, addresses and routes."""

from __future__ import annotations

from ...common.addressing import family
from ...common.naming import host_interface, workload_namespace
from ...types.netns_workload import Endpoint, Link
from ..common.name_resolution import name_servers, search_domains
from ..common.node_network import is_mesh
from .vswitch import HOST_END

_DEFAULT_ROUTES = {4: "0.0.0.0/0", 6: "::/0"}


def render_endpoints(plan: dict, node: str) -> list[Endpoint]:
    """Return the network namespaces of a node's workloads."""
    return [
        Endpoint(
            workload_namespace(workload["namespace"], workload["name"]),
            tuple(_link(plan, interface) for interface in workload["interfaces"]),
            _resolver(plan, workload),
        )
        for workload in plan["workloads"].values()
        if workload["node"] == node and workload["kind"] == "netns"
    ]


def _resolver(plan: dict, workload: dict) -> str:
    """Return the text of resolv.conf(5); OVN sees no questions of workloads on a network of the mesh."""
    domains = search_domains(plan["settings"], workload["namespace"])
    primary = next((one for one in workload["interfaces"] if one["role"] == "primary" and one["addresses"]), None)
    if not domains or primary is None:
        return ""
    versions = sorted(map(family, primary["addresses"]))
    defaults = [_DEFAULT_ROUTES[version] for version in versions]
    gateways = [route["via"] for route in primary["routes"] if route["to"] in defaults]
    is_answered = not is_mesh(plan["networks"][primary["network"]])
    servers = name_servers(plan, workload["node"], versions, gateways if is_answered else [])
    lines = [f"search {' '.join(domains)}", *(f"nameserver {server}" for server in servers)]
    return "".join(f"{line}\n" for line in lines) if servers else ""


def _link(plan: dict, interface: dict) -> Link:
    return Link(
        name=interface["name"],
        host_name=host_interface(interface["port"], HOST_END),
        mac=interface["mac"],
        mtu=interface["mtu"],
        addresses=tuple(interface["addresses"]),
        routes=tuple((route["to"], route["via"]) for route in interface["routes"]),
        network=interface["network"],
        # Routers advertise themselves on Layer2 only (`router_advertisement`); workloads have their routes in any case.
        solicits_routers=plan["networks"][interface["network"]]["topology"] != "Layer3",
    )
