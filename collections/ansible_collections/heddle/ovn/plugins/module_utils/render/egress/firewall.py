# SPDX-License-Identifier: Apache-2.0
"""ACLs of EgressFirewalls: the first rule that matches what a workload sends beyond its network decides.

As ovn-kubernetes has them: one port group for each namespace, one ACL for each rule and without connection tracking,
evaluated at the end of the switch, where a Service's address has become that of an endpoint. What stays in the network
is no rule's subject, and neither are its routers, by which replies to external hosts return.
"""

from __future__ import annotations

from ...common.addressing import family, overlapping
from ...types.ovsdb_row import Row
from ..common.hosting_nodes import hosting_nodes
from ..common.node_network import NodeNetwork
from ..policy.policy_rows import INGRESS, acl, on_group, port_group

FIRST_PRIORITY = 10000
_OWNER = "EgressFirewall"
# Neighbour discovery and multicast stay on the link (RFC 4291, 2.5.6 and 2.7).
_ON_LINK = ("fe80::/10", "ff00::/8")


def render_egress_firewalls(view: NodeNetwork) -> list[Row]:
    """Return the rows of a network in this node's zone: of firewalls that workloads of this node have."""
    rows: list[Row] = []
    for firewall in view.plan.get("egress_firewalls", {}).get(view.name, ()):
        subjects = set(firewall["workloads"])
        ports = {
            interface["port"]
            for workload, interface in view.workloads
            if f"{workload['namespace']}/{workload['name']}" in subjects and view.node in hosting_nodes(workload)
        }
        if ports:
            rows += _firewall(view, firewall, ports)
    return rows


def _firewall(view: NodeNetwork, firewall: dict, ports: set[str]) -> list[Row]:
    namespace = firewall["namespace"]
    group = port_group(view, "Namespace", {"name": namespace}, ports)
    rows = [group]
    for index, rule in enumerate(firewall["rules"]):
        targets = _targets(view, rule["targets"])
        if not targets:
            continue
        parts = [f"({targets})", f"inport == @{group.key}", _transports(rule["ports"])]
        rows.append(
            acl(
                view, on_group(group), INGRESS, FIRST_PRIORITY - index, " && ".join(filter(None, parts)),
                "allow" if rule["allow"] else "drop", owner_type=_OWNER,
                keys={"name": namespace, "rule-index": str(index)}, label=f"EF:{namespace}:{index}",
                logging=firewall.get("logging"),
            )
        )  # fmt: skip
    return rows


def _targets(view: NodeNetwork, targets: list[str]) -> str:
    """Return the match of destinations, "" when the network has the family of none."""
    inside = [*view.network["subnets"], *view.network["join_subnets"], *_ON_LINK]
    found = []
    for target in targets:
        version = family(target)
        if version not in view.network["families"]:
            continue
        field = f"ip{version}.dst"
        left_out = [f"{field} != {subnet}" for subnet in inside if overlapping(_subnet(target), subnet)]
        match = " && ".join([f"{field} == {target}", *left_out])
        found.append(f"({match})" if left_out and len(targets) > 1 else match)
    return " || ".join(found)


def _subnet(target: str) -> str:
    return target if "/" in target else f"{target}/{32 if family(target) == 4 else 128}"


def _transports(ports: list[dict]) -> str:
    by_protocol: dict[str, list[int]] = {}
    for port in ports:
        by_protocol.setdefault(port["protocol"].lower(), []).append(port["port"])
    found = [
        f"({protocol} && {protocol}.dst == {{{', '.join(map(str, sorted(set(numbers))))}}})"
        for protocol, numbers in sorted(by_protocol.items())
    ]
    return f"({' || '.join(found)})" if found else ""
