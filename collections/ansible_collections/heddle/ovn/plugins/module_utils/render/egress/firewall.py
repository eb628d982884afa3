# SPDX-License-Identifier: Apache-2.0
"""ACLs of EgressFirewalls: the first rule that matches what a workload sends beyond its network decides.

As ovn-kubernetes has them: one port group for each namespace, one ACL for each rule, evaluated at the end of the
switch, where a Service's address has become that of an endpoint. What stays in the network is no rule's subject, and
neither are replies: the switch tracks connections because of the ACLs that each network with rules has
(`render_always_allowed`).

A rule with a DNS name refers to address sets that the service heddle-dns-names fills on each host, so rows leave out
their addresses.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...common.addressing import family, overlapping
from ...common.naming import EGRESS_FIREWALL_DNS
from ...common.plan_format import DNS_NAMES
from ...types.ovsdb_row import Row
from ..common.hosting_nodes import hosting_nodes
from ..common.node_network import NodeNetwork
from ..policy.policy_rows import INGRESS, acl, address_set, address_set_name, on_group, port_group

FIRST_PRIORITY = 10000
_OWNER = "EgressFirewall"
# What stays on the link: neighbour discovery and multicast (RFC 4291, 2.5.6 and 2.7; RFC 1112), which routers of OVN do
# not forward, and broadcasts (RFC 919), by which virtual machines ask for their addresses.
_ON_LINK = ("fe80::/10", "ff00::/8", "224.0.0.0/4", "255.255.255.255/32")


def render_egress_firewalls(view: NodeNetwork) -> list[Row]:
    """Return the rows of a network in this node's zone: of firewalls that workloads of this node have."""
    rows: list[Row] = []
    names: set[str] = set()
    for firewall in view.plan.get("egress_firewalls", {}).get(view.name, ()):
        subjects = set(firewall["workloads"])
        ports = {
            interface["port"]
            for workload, interface in view.workloads
            if f"{workload['namespace']}/{workload['name']}" in subjects and view.node in hosting_nodes(workload)
        }
        if ports:
            rows += _firewall(view, firewall, ports)
            names |= {rule["dns_name"] for rule in firewall["rules"] if "dns_name" in rule}
    # Firewalls of several namespaces share the addresses of a name.
    return [*rows, *(_names_addresses(view, name, one) for name in sorted(names) for one in view.network["families"])]


def has_dns_names(plan: dict) -> bool:
    """Return whether a firewall has a rule with a DNS name."""
    return DNS_NAMES in plan.get("daemons", ()) or any(
        "dns_name" in rule
        for firewalls in plan.get("egress_firewalls", {}).values()
        for firewall in firewalls
        for rule in firewall["rules"]
    )


def _firewall(view: NodeNetwork, firewall: dict, ports: set[str]) -> list[Row]:
    namespace = firewall["namespace"]
    group = port_group(view, "Namespace", {"name": namespace}, ports)
    rows = [group]
    for index, rule in enumerate(firewall["rules"]):
        targets = _named_targets(view, rule["dns_name"]) if "dns_name" in rule else _targets(view, rule["targets"])
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
    found = []
    for target in targets:
        version = family(target)
        if version not in view.network["families"]:
            continue
        field = f"ip{version}.dst"
        left_out = [f"{field} != {subnet}" for subnet in _inside(view, version) if overlapping(_subnet(target), subnet)]
        match = " && ".join([f"{field} == {target}", *left_out])
        found.append(f"({match})" if left_out and len(targets) > 1 else match)
    return " || ".join(found)


def _named_targets(view: NodeNetwork, name: str) -> str:
    """Return the match of the addresses of a DNS name."""
    found = []
    for version in view.network["families"]:
        field = f"ip{version}.dst"
        left_out = [f"{field} != {subnet}" for subnet in _inside(view, version)]
        addresses = address_set_name(view, EGRESS_FIREWALL_DNS, name, version)
        found.append(f"({' && '.join([f'{field} == ${addresses}', *left_out])})")
    return " || ".join(found)


def _names_addresses(view: NodeNetwork, name: str, version: int) -> Row:
    """Return the address set of a DNS name, without the addresses, which are not part of the plan."""
    row = address_set(view, EGRESS_FIREWALL_DNS, name, version, ())
    return replace(row, columns={column: value for column, value in row.columns.items() if column != "addresses"})


def _inside(view: NodeNetwork, version: int) -> Iterator[str]:
    """Yield the subnets of a family that are no rule's subject."""
    for subnet in (*view.network["subnets"], *view.network["join_subnets"], *_ON_LINK):
        if family(subnet) == version:
            yield subnet


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
