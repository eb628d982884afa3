# SPDX-License-Identifier: Apache-2.0
"""The bridge of the mesh on a host: the tunnels' port, the ports of workloads on its networks, and those of gateways.

OVN knows nothing of it: the daemon of the mesh is the bridge's OpenFlow controller.
"""

from __future__ import annotations

from ipaddress import ip_address

from ...common.naming import MESH_BRIDGE, MESH_TUNNELS, host_interface, management_interface
from ...types.ovsdb_row import Keys, Parent, Row
from ..common.hosting_nodes import hosting_nodes
from ..common.node_network import is_mesh
from .mesh_gateway import gateway_mac, gateway_views

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


def mesh_gateways(plan: dict, node: str) -> dict[str, tuple[str, str]]:
    """Return by primary network of the mesh the MAC address of its gateway, and the gateway's port on a node.

    The port is "" on a node that is no router for the network.
    """
    ports = {view.name: management_interface(view.network["id"]) for view in gateway_views(plan, node)}
    return {
        name: (gateway_mac(network), ports.get(name, ""))
        for name, network in mesh_networks(plan).items()
        if "gateways" in network
    }


def render_mesh_gateways(plan: dict, node: str, datapath: str) -> list[Row]:
    """Return the rows of the host's own ports on the bridge, by which it is the router of networks.

    The bridge is among them, since the host's routes are set before workloads are; the step that comes first makes it.
    """
    rows = _bridge(plan, node, datapath)
    if not rows:
        return []
    for view in gateway_views(plan, node):
        columns = {
            "type": "internal",
            "mac": gateway_mac(view.network),
            "mtu_request": view.network["mtu"],
            "external_ids": Keys({"k8s.ovn.org/network": view.name}),
        }
        rows += _port(management_interface(view.network["id"]), columns, view.name)
    return rows


def render_mesh_bridge(plan: dict, node: str, datapath: str) -> list[Row]:
    """Return the rows of the bridge and of the ports of workloads; none for a plan without a network of the mesh.

    `datapath` is `system` or `netdev`. Without its controller the bridge forwards nothing (`fail_mode`). The port of
    the tunnels takes its remote address and its identifier from flows (ovs-vswitchd.conf.db(5), "Tunnel Options").
    """
    rows = _bridge(plan, node, datapath)
    if not rows:
        return []
    rows += _port(MESH_BRIDGE, {"type": "internal"})
    options = {
        "remote_ip": "flow",
        "local_ip": str(ip_address(plan["nodes"][node]["encap_ips"][0])),
        "key": "flow",
        "dst_port": str(VXLAN_PORT),
    }
    rows += _port(MESH_TUNNELS, {"type": "vxlan", "options": options})
    for _workload, interface in _attached(plan, node):
        ids = {"iface-id": interface["port"], "attached_mac": interface["mac"]}
        columns = {"external_ids": Keys(ids)}
        rows += _port(host_interface(interface["port"], _HOST_END), columns, interface["network"])
    return rows


def _bridge(plan: dict, node: str, datapath: str) -> list[Row]:
    if not mesh_networks(plan) or not plan["nodes"][node].get("encap_ips"):
        return []
    bridge = {"name": MESH_BRIDGE, "datapath_type": datapath, "fail_mode": "secure"}
    bridge["other_config"] = Keys({"disable-in-band": "true"})
    place = Parent("Open_vSwitch", "host", "bridges")
    return [
        Row("Open_vSwitch", "host", {}, match={}),
        Row("Bridge", MESH_BRIDGE, bridge, parent=place, match={"name": MESH_BRIDGE}),
    ]


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
