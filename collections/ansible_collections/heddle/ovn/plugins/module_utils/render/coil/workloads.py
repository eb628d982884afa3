# SPDX-License-Identifier: Apache-2.0
"""Workloads with an address of a pool: their network namespaces, and what the host needs to reach them.

Coil v2, "Intra-node routing": the workload has its addresses as /32 and /128 and its default routes through
addresses of the host's end: link-local ones, or for IPv4 that of the node (setting `coil.gateway`). There is no bridge.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...common.addressing import family, host_route, mac_of_address, plain
from ...common.naming import DEFAULT_INTERFACE, host_interface, workload_namespace, workload_port
from ...types.netns_workload import Endpoint, Link
from ...types.routed_workloads import GATEWAYS, NODE_ADDRESS, RoutedLink, RoutedWorkloads
from .node_address import node_address

_HOST_END = "_c"
_EVERYWHERE = {4: "0.0.0.0/0", 6: "::/0"}


def render_routed_endpoints(plan: dict, node: str, mtu: int) -> list[Endpoint]:
    """Return the network namespaces of a node's workloads on pools; `mtu` is that of the host's uplink."""
    return [
        Endpoint(workload_namespace(workload["namespace"], workload["name"]), (_link(plan, workload, mtu),))
        for workload in _workloads(plan, node)
    ]


def render_routed_workloads(plan: dict, node: str) -> RoutedWorkloads:
    """Return what the node's own network namespace has of pools."""
    if "coil" not in plan:
        return RoutedWorkloads()
    links = tuple(
        RoutedLink(
            _host_end(workload),
            tuple(workload["addresses"]),
            _network(workload),
            tuple(_gateways(plan, workload).values()),
        )
        for workload in _workloads(plan, node)
    )
    coil = plan["coil"]
    blocks, reserved = (tuple(coil.get(name, {}).get(node, ())) for name in ("blocks", "reserved"))
    return RoutedWorkloads(links, blocks, reserved, is_used=True)


def _workloads(plan: dict, node: str) -> Iterator[dict]:
    found = plan.get("coil", {}).get("workloads", {}).values()
    return (workload for workload in found if workload["node"] == node)


def _host_end(workload: dict) -> str:
    return host_interface(workload_port(workload["namespace"], workload["name"]), _HOST_END)


def _network(workload: dict) -> str:
    return f"AddressPool/{workload['pool']}"


def _gateways(plan: dict, workload: dict) -> dict[int, str]:
    """Return the addresses of the host's end by family, with prefix length."""
    found = {version: GATEWAYS[version] for version in sorted(map(family, workload["addresses"]))}
    if 4 in found and plan["coil"]["routing"].get("gateway") == NODE_ADDRESS:
        own = node_address(plan["nodes"][workload["node"]], 4)
        found[4] = host_route(own) if own else found[4]
    return found


def _link(plan: dict, workload: dict, mtu: int) -> Link:
    gateways = {version: plain(address) for version, address in _gateways(plan, workload).items()}
    # IPv6 needs no route to a link-local gateway.
    on_link = [(host_route(gateways[4]), None)] if 4 in gateways else []
    return Link(
        name=DEFAULT_INTERFACE,
        host_name=_host_end(workload),
        mac=mac_of_address(workload["addresses"][0]),
        mtu=mtu,
        addresses=tuple(map(host_route, workload["addresses"])),
        routes=(*on_link, *((_EVERYWHERE[version], gateway) for version, gateway in sorted(gateways.items()))),
        network=_network(workload),
        solicits_routers=False,
        is_routed=True,
    )
