# SPDX-License-Identifier: Apache-2.0
"""One packet from a workload to an external host, in the form that ovn-trace and ofproto/trace take. Pure."""

from __future__ import annotations

from ..common.addressing import family, mac_of_address, plain
from ..common.naming import layer2_switch, node_switch, patch_port
from ..render.common.node_network import NodeNetwork, is_mesh
from ..render.common.provider import provider_of
from .expectations.firewall_permissions import FirewallPermissions
from .expectations.policy_permissions import PolicyPermissions

SOURCE_PORT, TARGET_PORT = 40000, 80


class _Permissions:
    """Whether workloads may send to external hosts, by policies and firewalls."""

    def __init__(self, plan: dict, external: list[str]) -> None:
        self._policies, self._firewalls = PolicyPermissions(plan), FirewallPermissions(plan)
        self._external = external

    def permit(self, name: str, network: str, version: int, protocol: str) -> bool:
        """Return whether a workload may send to TARGET_PORT of the first external host of a family, if there is one."""
        target = next((one for one in self._external if family(one) == version), None)
        return target is None or not (
            self._policies.refusal(network, name, "", ("", target), protocol, TARGET_PORT)
            or self._firewalls.refusal(network, name, target, protocol, TARGET_PORT)
            or self._firewalls.by_name(network, name, target, protocol, TARGET_PORT)
        )


def overlapping(plan: dict, node: str, external: list[str]) -> list[tuple[str, str, str]]:
    """Return (workload, network, address) of two networks of OVN of a node with one subnet; empty if there are none.

    Those whose workloads have the same address come first. Their workloads may send to the external hosts.
    """
    found: dict[str, tuple[str, str, str]] = {}
    permissions = _Permissions(plan, external)
    for name, workload in plan["workloads"].items():
        for interface in workload["interfaces"] if workload["node"] == node else ():
            network = interface["network"]
            if is_mesh(plan["networks"][network]) or network in found:
                continue
            if interface["role"] == "primary" and interface["addresses"]:
                address = plain(interface["addresses"][0])
                if permissions.permit(name, network, family(address), "UDP"):
                    found[network] = name, network, address
    pairs = [
        (one, two)
        for one in found.values()
        for two in found.values()
        if one[1] < two[1] and set(plan["networks"][one[1]]["subnets"]) & set(plan["networks"][two[1]]["subnets"])
    ]
    pairs.sort(key=lambda pair: pair[0][2] != pair[1][2])
    return list(pairs[0]) if pairs else []


def egress_packet(plan: dict, node: str, external: list[str]) -> dict | None:
    """Return the packet of a workload of a user-defined network of OVN; None without external connectivity of the node.

    It has `title`, ovn-trace's `datapath` and `microflow`, and the same packet after the gateway router: `bridge` and
    `flow` for ofproto/trace.
    """
    provider, permissions = provider_of(plan["nodes"][node]), _Permissions(plan, external)
    for name, workload in plan["workloads"].items():
        for interface in workload["interfaces"] if provider and workload["node"] == node else ():
            network = plan["networks"][interface["network"]]
            target = next((one for one in external if family(one) == 4), None)
            source = next((plain(one) for one in interface["addresses"] if family(one) == 4), None)
            if not (interface["role"] == "primary" and network["id"] and source and target) or is_mesh(network):
                continue
            if permissions.permit(name, interface["network"], 4, "TCP"):
                return _packet(NodeNetwork(plan, interface["network"], node, []), name, interface, (source, target))
    return None


def _packet(view: NodeNetwork, name: str, interface: dict, ends: tuple[str, str]) -> dict:
    source, target = ends
    provider = view.provider
    gateway = mac_of_address(sorted(map(plain, view.gateway_interfaces()), key=family)[0])
    datapath = layer2_switch(view.name) if view.network["topology"] == "Layer2" else node_switch(view.name, view.node)
    masquerade = next(one for one in view.masquerade_addresses(0) if family(one) == 4)
    port = patch_port(view.name, view.node, provider.bridge)
    return {
        "title": f"{name} -> {target} (network {view.name}, {source} -> {target})",
        "network": view.name,
        "datapath": datapath,
        "microflow": f'inport == "{interface["port"]}" && eth.src == {interface["mac"]} && eth.dst == {gateway} && '
        f"ip4.src == {source} && ip4.dst == {target} && ip.ttl == 64 && tcp && "
        f"tcp.src == {SOURCE_PORT} && tcp.dst == {TARGET_PORT}",
        "bridge": provider.bridge,
        "flow": f"in_port={port},tcp,dl_src={provider.mac},nw_src={masquerade},nw_dst={target},nw_ttl=62,"
        f"tp_src={SOURCE_PORT},tp_dst={TARGET_PORT}",
    }
