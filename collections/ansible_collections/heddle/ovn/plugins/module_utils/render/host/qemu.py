# SPDX-License-Identifier: Apache-2.0
"""Renders virtual machines of a host, including those that migrate from or to it."""

from __future__ import annotations

from ...common.naming import host_interface, workload_namespace
from ...types.virtual_machine import Nic, VirtualMachine
from ..common.hosting_nodes import hosting_nodes
from .vswitch import HOST_END


def render_virtual_machines(plan: dict, node: str) -> list[VirtualMachine]:
    """Return the virtual machines that a node runs, or that are moving away from it or to it."""
    return [
        VirtualMachine(
            workload_namespace(workload["namespace"], workload["name"]),
            workload["memory"],
            tuple(_nic(interface) for interface in workload["interfaces"]),
            _role(workload, node),
        )
        for workload in plan["workloads"].values()
        if workload["kind"] == "vm" and node in hosting_nodes(workload)
    ]


def render_additional_chassis(plan: dict, node: str) -> dict[str, str | None]:
    """Return ports of virtual machines elsewhere or moving away -> the additional chassis that also gets their packets.

    In the zone of a migration's target, ovn-controller sets that itself.
    """
    return {
        interface["port"]: plan["nodes"][workload["moving_to"]]["chassis"] if workload["moving_to"] else None
        for workload in plan["workloads"].values()
        if workload["kind"] == "vm" and node != workload["moving_to"]
        for interface in workload["interfaces"]
    }


def _role(workload: dict, node: str) -> str:
    if workload["moving_to"] is None:
        return "run"
    return "target" if workload["moving_to"] == node else "source"


def _nic(interface: dict) -> Nic:
    return Nic(
        host_name=host_interface(interface["port"], HOST_END),
        mac=interface["mac"],
        mtu=interface["mtu"],
        network=interface["network"],
    )
