# SPDX-License-Identifier: Apache-2.0
"""Localnet topology: one switch per node, connected by the provider network through a localnet port.

OKEP-5193, "Localnet"; rows as ovn-kubernetes's localnet controller writes them. It uses no tunnels.
"""

from __future__ import annotations

from ...common.naming import localnet_port, localnet_switch
from ...types.ovsdb_row import Row
from ..common.node_network import NodeNetwork, switch_config
from ..common.ovn_rows import switch, switch_port, vlan_columns


def render_localnet(view: NodeNetwork) -> list[Row]:
    """Rows of a Localnet network in this node's zone, without its workloads.

    The host maps `network_name` to a bridge (`ovn-bridge-mappings`).
    """
    name = localnet_switch(view.name)
    return [
        switch(view, name, switch_config(view.subnets()), view.external_ids(role=True)),
        switch_port(
            view, name, localnet_port(view.name), type="localnet", addresses={"unknown"},
            options={"network_name": view.network["physical_network"]}, **vlan_columns(view.network["vlan"]),
        ),
    ]  # fmt: skip
