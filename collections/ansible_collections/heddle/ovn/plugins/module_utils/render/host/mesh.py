# SPDX-License-Identifier: Apache-2.0
"""The bridge of the mesh on a host: the tunnels' port, and the ports of workloads on its networks.

OVN knows nothing of it: the daemon of the mesh is the bridge's OpenFlow controller.
"""

from __future__ import annotations

from ipaddress import ip_address

from ...common.naming import MESH_BRIDGE, MESH_TUNNELS, host_interface
from ...types.ovsdb_row import Keys, Parent, Row
from ..common.hosting_nodes import hosting_nodes
from ..common.node_network import is_mesh

# UDP port of the tunnels: Weave's, the one after that of the control channel.
VXLAN_PORT = 6784
_HOST_END = "_h"


def mesh_networks(plan: dict) -> dict[str, dict]:
    """Return the networks of the mesh by name."""
    return {name: network for name, network in plan["networks"].items() if is_mesh(network)}


def mesh_ports(plan: dict, node: str) -> dict[str, dict[str, str]]:
    """Return by network the ports of a node's workloads, each with the MAC address of its workload."""
    found: dict[str, dict[str, str]] = {}
    for workload, interface in _attached(plan, node):
        if workload["node"] == node:
            port = host_interface(interface["port"], _HOST_END)
            found.setdefault(interface["network"], {})[port] = interface["mac"]
    return found


def render_mesh_bridge(plan: dict, node: str, datapath: str) -> list[Row]:
    """Return the rows of the bridge; none for a plan without a network of the mesh.

    `datapath` is `system` or `netdev`. Without its controller the bridge forwards nothing (`fail_mode`). The port of
    the tunnels takes its remote address and its identifier from flows (ovs-vswitchd.conf.db(5), "Tunnel Options").
    """
    addresses = plan["nodes"][node].get("encap_ips") or []
    if not mesh_networks(plan) or not addresses:
        return []
    bridge = {"name": MESH_BRIDGE, "datapath_type": datapath, "fail_mode": "secure"}
    bridge["other_config"] = Keys({"disable-in-band": "true"})
    rows = [Row("Open_vSwitch", "host", {}, match={})]
    rows.append(Row("Bridge", MESH_BRIDGE, bridge, parent=Parent("Open_vSwitch", "host", "bridges")))
    rows += _port(MESH_BRIDGE, {"type": "internal"})
    options = {
        "remote_ip": "flow",
        "local_ip": str(ip_address(addresses[0])),
        "key": "flow",
        "dst_port": str(VXLAN_PORT),
    }
    rows += _port(MESH_TUNNELS, {"type": "vxlan", "options": options})
    for _workload, interface in _attached(plan, node):
        ids = {"iface-id": interface["port"], "attached_mac": interface["mac"]}
        columns = {"external_ids": Keys(ids)}
        rows += _port(host_interface(interface["port"], _HOST_END), columns, interface["network"])
    return rows


def _attached(plan: dict, node: str):
    networks = mesh_networks(plan)
    for workload in plan["workloads"].values():
        if node in hosting_nodes(workload):
            for interface in workload["interfaces"]:
                if interface["network"] in networks:
                    yield workload, interface


def _port(name: str, interface: dict, network: str = "") -> list[Row]:
    return [
        Row("Port", name, {"name": name}, network, Parent("Bridge", MESH_BRIDGE, "ports")),
        Row("Interface", name, {"name": name, **interface}, network, Parent("Port", name, "interfaces")),
    ]
