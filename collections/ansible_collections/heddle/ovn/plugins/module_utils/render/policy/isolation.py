# SPDX-License-Identifier: Apache-2.0
"""Locks the default network for workloads whose primary network is another one.

OKEP-5193, "Network Segmentation"; ports, priorities and ids as ovn-kubernetes's UDN isolation.
"""

from __future__ import annotations

from ...common.addressing import family
from ...common.naming import LOCKED_ROLE, hashed_name
from ...types.ovsdb_row import Parent, Ref, Row
from ..common.node_network import NodeNetwork
from ..common.ovn_rows import SWITCH_PORT

ALLOW_PRIORITY, DENY_PRIORITY = 1001, 1000
_CONTROLLER = "default-network-controller"
_OWNER_TYPE = "UDNIsolation"


def render_isolation(view: NodeNetwork) -> list[Row]:
    """Port group of the locked ports of this node and its rules; `view` is of the default network."""
    members = {
        Ref(SWITCH_PORT, interface["port"])
        for workload, interface in view.workloads
        if workload["node"] == view.node and interface["role"] == LOCKED_ROLE
    }
    primary_id = f"{_CONTROLLER}:{_OWNER_TYPE}:SecondaryPods"
    group = hashed_name(primary_id)
    ids = _ids("SecondaryPods", primary_id)
    rows = [Row("Port_Group", group, {"name": group, "ports": members, "external_ids": ids}, view.name)]
    sources = view.management_addresses()
    rows += [
        _rule(
            view, group, "AllowHostARPPrimaryUDN", direction, ALLOW_PRIORITY,
            f"{port} == @{group} && ({_neighbour_discovery(sources, field)})", "allow",
        )
        for direction, port, field in (("from-lport", "inport", "arp.tpa"), ("to-lport", "outport", "arp.spa"))
    ]  # fmt: skip
    rows += [
        _rule(view, group, "DenyPrimaryUDN", "from-lport", DENY_PRIORITY, f"inport == @{group}", "drop"),
        _rule(view, group, "DenyPrimaryUDN", "to-lport", DENY_PRIORITY, f"outport == @{group}", "drop"),
    ]
    match = " || ".join(f"ip{family(address)}.src == {address}" for address in sources)
    rows.append(
        _rule(
            view, group, "AllowHostPrimaryUDN", "to-lport", ALLOW_PRIORITY, f"outport == @{group} && ({match})",
            "allow-related",
        )
    )  # fmt: skip
    return rows


def _neighbour_discovery(hosts: list[str], field: str) -> str:
    """Match ARP and neighbour discovery about the host only: workloads must not resolve each other."""
    return " || ".join(
        f"(arp && {field} == {address})" if family(address) == 4 else f"(nd && nd.target == {address})"
        for address in hosts
    )


def _ids(name: str, primary_id: str) -> dict:
    return {
        "k8s.ovn.org/owner-controller": _CONTROLLER,
        "k8s.ovn.org/owner-type": _OWNER_TYPE,
        "k8s.ovn.org/name": name,
        "k8s.ovn.org/id": primary_id,
    }


def _rule(view: NodeNetwork, group: str, name: str, direction: str, priority: int, match: str, action: str) -> Row:
    way = "Egress" if direction == "from-lport" else "Ingress"
    primary_id = f"{_CONTROLLER}:{_OWNER_TYPE}:{name}:{way}"
    columns = {
        "name": name,
        "direction": direction,
        "priority": priority,
        "match": match,
        "action": action,
        "tier": 0,
        "log": False,
        "external_ids": {**_ids(name, primary_id), "direction": way},
    }
    return Row("ACL", f"{name} {way}", columns, view.name, Parent("Port_Group", group, "acls"))
