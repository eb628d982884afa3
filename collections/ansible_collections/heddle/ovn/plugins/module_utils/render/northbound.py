# SPDX-License-Identifier: Apache-2.0
"""Collects all Northbound rows of one zone."""

from __future__ import annotations

from collections.abc import Container
from math import ceil

from ..common.naming import DEFAULT_NETWORK
from ..types.ovsdb_row import Keys, Parent, Row
from .common.node_network import NodeNetwork, attachments, is_mesh, is_on
from .common.ovn_rows import COPP_NAME
from .egress.firewall import render_egress_firewalls
from .egress.qos import render_egress_qos
from .egress.routers import render_egress_ips
from .policy.blocked_connections import render_blocked_connections
from .policy.isolation import render_isolation
from .policy.network_policy import render_always_allowed, render_policies
from .policy.policy_rows import LOGGING_METER
from .services.cluster_services import render_services
from .services.names import render_names
from .services.network_services import render_network_services
from .topology.layer2 import render_layer2
from .topology.layer3 import render_layer3
from .topology.localnet import render_localnet
from .topology.workload_port import render_workload_switch_ports

# Protocols that OVN hands to ovn-controller; each is limited to 25 packets a second, of all routers and switches of the
# node together: Open vSwitch has one meter for all. An ARP reply goes to every gateway router (gateway/neighbour_flows)
# and each one that does not know the neighbour hands it over, so that limit grows with their number. Otherwise the last
# of them do not learn it, and theirs may be the question. What waits for the answer is lost then. A few routers have as
# much each as one has alone; with many of them that would let a flood of ARP take all of ovn-controller's time.
PUNTED_PROTOCOLS = (
    "arp", "arp-resolve", "bfd", "event-elb", "icmp4-error", "icmp6-error", "reject", "svc-monitor", "tcp-reset",
)  # fmt: skip
PUNTED_PACKETS_PER_SECOND = 25
ARP_PACKETS_PER_ROUTER, FEW_ROUTERS = 4, 10
# ovn-kubernetes, `acl-logging-rate-limit`: for each ACL that logs.
LOGGED_PACKETS_PER_SECOND = 20

# The scope of a purge: every table that these renderers write.
TABLES = (
    "ACL", "Address_Set", "Copp", "DHCP_Options", "DNS", "Gateway_Chassis", "Load_Balancer", "Load_Balancer_Group",
    "Logical_Router", "Logical_Router_Policy", "Logical_Router_Port", "Logical_Router_Static_Route", "Logical_Switch",
    "Logical_Switch_Port", "Meter", "Meter_Band", "NAT", "Port_Group", "QoS", "Static_MAC_Binding",
)  # fmt: skip

_TOPOLOGIES = {"Layer2": render_layer2, "Layer3": render_layer3, "Localnet": render_localnet}


def render_northbound(plan: dict, node: str, networks: Container[str] | None = None) -> list[Row]:
    """Return the Northbound rows of a node's zone; with `networks` of these only, and what is common to all."""
    rows = _zone(node) + _control_plane_protection(_gateway_routers(plan, node))
    attached = attachments(plan)
    for name, network in plan["networks"].items():
        if (networks is not None and name not in networks) or not is_on(network, node) or is_mesh(network):
            continue
        view = NodeNetwork(plan, name, node, attached.get(name, []))
        rows += _TOPOLOGIES[network["topology"]](view)
        rows += render_workload_switch_ports(view) + render_network_services(view) + render_names(view)
        rules = render_policies(view) + render_egress_firewalls(view)
        if rules:
            rules += render_always_allowed(view)
        rows += rules + render_blocked_connections(view, rules)
        rows += render_egress_ips(view) + render_egress_qos(view)
        if name == DEFAULT_NETWORK:
            rows += render_isolation(view) + render_services(view)
    if any(row.table == "ACL" and row.columns["log"] for row in rows):
        rows += _meter(LOGGING_METER, LOGGED_PACKETS_PER_SECOND)
    return rows


def _zone(node: str) -> list[Row]:
    options = {"name": node, "northd-backoff-interval-ms": "300"}
    return [Row("NB_Global", "zone", {"name": node, "options": Keys(options)}, match={})]


def _gateway_routers(plan: dict, node: str) -> int:
    """Return how many networks have a gateway router on a node with an uplink."""
    here = (network for network in plan["networks"].values() if is_on(network, node) and not is_mesh(network))
    return sum(network["role"] == "Primary" for network in here)


def _control_plane_protection(routers: int) -> list[Row]:
    rows = []
    for protocol in PUNTED_PROTOCOLS:
        # In steps, so that few networks change the row.
        in_proportion = ceil(ARP_PACKETS_PER_ROUTER * routers / PUNTED_PACKETS_PER_SECOND)
        steps = max(in_proportion, min(routers, FEW_ROUTERS)) if protocol == "arp" else 1
        rows += _meter(f"{protocol}-rate-limiter", PUNTED_PACKETS_PER_SECOND * max(steps, 1))
    meters = {protocol: f"{protocol}-rate-limiter" for protocol in PUNTED_PROTOCOLS}
    rows.append(Row("Copp", COPP_NAME, {"name": COPP_NAME, "meters": meters}))
    return rows


def _meter(name: str, rate: int) -> list[Row]:
    """Return a meter that drops what exceeds a rate in packets per second."""
    return [
        Row("Meter", name, {"name": name, "unit": "pktps", "fair": True}),
        Row("Meter_Band", name, {"action": "drop", "rate": rate}, parent=Parent("Meter", name, "bands")),
    ]
