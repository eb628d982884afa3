# SPDX-License-Identifier: Apache-2.0
"""Open vSwitch settings of a host, and the ports of its workloads."""

from __future__ import annotations

from ...common.addressing import plain
from ...common.databases import SOUTHBOUND_REMOTE
from ...common.naming import INTEGRATION_BRIDGE, host_interface
from ...types.ovsdb_row import Keys, Parent, Row
from ..common.hosting_nodes import hosting_nodes
from ..common.node_network import is_mesh
from ..common.overlay import overlay_of

TABLES = ("Bridge", "Port", "Interface")
UNDERLAY_BRIDGE = "br-underlay"
BRIDGE_UPLINK = "bridge-uplink"
HOST_END = "_h"
# Set by the plan, too: an installed host is a chassis before the encapsulation of its networks is known.
ENCAPSULATION = "ovn-encap-type"


def render_integration_bridge(host: dict) -> list[Row]:
    """Return the rows that make a host a chassis.

    `host`: `name`, `encap_ips` (addresses), `encapsulation` (`geneve` or `vxlan`), `datapath` (`system` or `netdev`),
    and `bridges` besides the integration bridge: `name`, `uplink` that is attached to it or None, its `mac`,
    `physical_networks` that it maps, and the `vlan` of the host itself, or None.
    Keys as ovn-kubernetes sets them (ovn-controller(8), "Configuration").
    """
    mappings = [f"{network}:{bridge['name']}" for bridge in host["bridges"] for network in bridge["physical_networks"]]
    external_ids = {
        "hostname": host["name"],
        "ovn-bridge": INTEGRATION_BRIDGE,
        "ovn-bridge-mappings": ",".join(mappings) or None,
        "ovn-bridge-datapath-type": host["datapath"],
        "ovn-bridge-remote-probe-interval": "0",
        "ovn-enable-lflow-cache": "true",
        "ovn-encap-ip": ",".join(host["encap_ips"]),
        ENCAPSULATION: host["encapsulation"],
        "ovn-is-interconn": "true",
        "ovn-monitor-all": "true",
        "ovn-ofctrl-wait-before-clear": "0",
        "ovn-remote": SOUTHBOUND_REMOTE,
        "ovn-remote-probe-interval": "100000",
        "ovn-set-local-ip": "true",
    }
    settings = {"external_ids": Keys(external_ids), "other_config": Keys({"bundle-idle-timeout": "0"})}
    rows = [Row("Open_vSwitch", "host", settings, match={})]
    rows += _bridge(
        INTEGRATION_BRIDGE, host["datapath"], {"fail_mode": "secure", "other_config": Keys({"disable-in-band": "true"})}
    )
    for bridge in host["bridges"]:
        rows += _external_bridge(bridge, host["datapath"])
    return rows


def render_encapsulation(plan: dict) -> list[Row]:
    """Return the setting of Open vSwitch that has the encapsulation of the plan."""
    columns = {"external_ids": Keys({ENCAPSULATION: overlay_of(plan).kind})}
    return [Row("Open_vSwitch", "host", columns, match={})]


def _external_bridge(bridge: dict, datapath: str) -> list[Row]:
    """A bridge with an uplink; without flows it is an ordinary switch, so the host keeps its connectivity."""
    name, uplink = bridge["name"], bridge["uplink"]
    columns: dict = {"fail_mode": "standalone", "external_ids": Keys({"bridge-id": name})}
    if uplink is None:
        return _bridge(name, datapath, columns)
    own = {"tag": bridge["vlan"]} if bridge["vlan"] else {}
    columns["external_ids"] = Keys({"bridge-id": name, BRIDGE_UPLINK: uplink})
    columns["other_config"] = Keys({"hwaddr": bridge["mac"]})
    return [*_bridge(name, datapath, columns, own), *_port(name, uplink, {})]


def _bridge(name: str, datapath: str, columns: dict, own_port: dict | None = None) -> list[Row]:
    bridge = Row(
        "Bridge",
        name,
        {"name": name, "datapath_type": datapath, **columns},
        parent=Parent("Open_vSwitch", "host", "bridges"),
        match={"name": name},
    )
    return [bridge, *_port(name, name, {"type": "internal"}, own_port)]


def _port(bridge: str, name: str, interface: dict, columns: dict | None = None) -> list[Row]:
    return [
        Row(
            "Port",
            name,
            {"name": name, **(columns or {})},
            parent=Parent("Bridge", bridge, "ports"),
            match={"name": name},
        ),
        Row(
            "Interface",
            name,
            {"name": name, **interface},
            parent=Parent("Port", name, "interfaces"),
            match={"name": name},
        ),
    ]


def render_workload_ports(plan: dict, node: str) -> list[Row]:
    """Return the ports of the integration bridge for a node's workloads (ovn-architecture, "Life Cycle of a VIF")."""
    rows = [Row("Bridge", INTEGRATION_BRIDGE, {}, match={"name": INTEGRATION_BRIDGE})]
    for workload in plan["workloads"].values():
        if node not in hosting_nodes(workload):
            continue
        for interface in workload["interfaces"]:
            if is_mesh(plan["networks"][interface["network"]]):
                continue
            name = host_interface(interface["port"], HOST_END)
            ids = {
                "iface-id": interface["port"],
                "attached_mac": interface["mac"],
                "ip_addresses": " ".join(map(plain, interface["addresses"])),
                "pod-if-name": interface["name"],
            }
            if interface["nad"]:
                ids |= {"k8s.ovn.org/network": interface["network"], "k8s.ovn.org/nad": interface["nad"]}
            port = {"name": name, "other_config": {"transient": "true"}}
            network = interface["network"]
            rows.append(Row("Port", name, port, network, Parent("Bridge", INTEGRATION_BRIDGE, "ports")))
            columns = {"name": name, "external_ids": Keys(ids)}
            rows.append(Row("Interface", name, columns, network, Parent("Port", name, "interfaces")))
    return rows
