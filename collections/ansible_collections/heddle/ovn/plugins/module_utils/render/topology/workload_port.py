# SPDX-License-Identifier: Apache-2.0
"""Logical switch ports of workloads, on this node and (Layer2) as remote ports on the others."""

from __future__ import annotations

from ...common.addressing import plain
from ...common.naming import EXTERNAL_ID_NAD
from ...types.ovsdb_row import Row
from ..common.hosting_nodes import hosting_nodes
from ..common.node_network import NodeNetwork
from ..common.ovn_rows import switch_port
from .dhcp import dhcp_columns, dhcp_rows


def render_workload_switch_ports(view: NodeNetwork) -> list[Row]:
    """Ports of this node's workloads; a Layer2 network also has the others' as remote ports."""
    rows, remotes = [], set(view.remotes) if view.network["topology"] == "Layer2" else ()
    for workload, interface in view.workloads:
        if workload["node"] in remotes or view.node in hosting_nodes(workload):
            rows += [_port(view, workload, interface), *dhcp_rows(view, workload, interface)]
    return rows


def _port(view: NodeNetwork, workload: dict, interface: dict) -> Row:
    is_local = view.node in hosting_nodes(workload)
    layer2 = view.network["topology"] == "Layer2"
    # Without IPAM only the MAC is known, and port security then permits any address with that MAC.
    addresses = " ".join([interface["mac"], *map(plain, interface["addresses"])])
    options = {"requested-chassis": view.chassis(workload["node"])}
    if workload.get("moving_to") == view.node:
        # Until the workload arrives here, its packets go to the zone that still has it.
        options["requested-chassis"] += f",{view.chassis()}"
        options["activation-strategy"] = "rarp"
    if layer2:
        options["requested-tnl-key"] = str(interface["tunnel_id"])
    ids = {**view.external_ids(), "namespace": workload["namespace"], "pod": "true"}
    if interface["nad"]:
        ids[EXTERNAL_ID_NAD] = interface["nad"]
    return switch_port(
        view,
        view.workload_switch,
        interface["port"],
        ids,
        type="" if is_local else "remote",
        addresses={addresses},
        port_security={addresses} if is_local else set(),
        options=options,
        **dhcp_columns(view, workload, interface),
    )
