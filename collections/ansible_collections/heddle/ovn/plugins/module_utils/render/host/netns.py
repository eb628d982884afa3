# SPDX-License-Identifier: Apache-2.0
"""Renders workloads as network namespaces with links, addresses and routes."""

from __future__ import annotations

from ...common.naming import host_interface, workload_namespace
from ...types.netns_workload import Endpoint, Link
from .vswitch import HOST_END


def render_endpoints(plan: dict, node: str) -> list[Endpoint]:
    """Return the network namespaces of a node's workloads."""
    return [
        Endpoint(
            workload_namespace(workload["namespace"], workload["name"]),
            tuple(_link(plan, interface) for interface in workload["interfaces"]),
        )
        for workload in plan["workloads"].values()
        if workload["node"] == node and workload["kind"] == "netns"
    ]


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
