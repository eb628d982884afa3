# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The cluster as tables for a terminal."""

from __future__ import annotations

DOCUMENTATION = r"""
name: status_table
short_description: The cluster as tables for a terminal
version_added: 0.1.0
author:
  - Heddle maintainers (@heddle)
description:
  - Turns what M(heddle.ovn.resource_info) returned into tables of hosts, networks and workloads.
  - A network is ready when every host has it as planned.
positional: audits
options:
  _input:
    description: The result of M(heddle.ovn.resource_info).
    type: dict
    required: true
  audits:
    description: The result of M(heddle.ovn.audit) by host; empty for a host that did not answer.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show the cluster
  ansible.builtin.debug:
    msg: "{{ cluster | heddle.ovn.status_table(audits) }}"
"""

RETURN = r"""
_value:
  description: The tables as text.
  type: str
"""


from ansible_collections.heddle.ovn.plugins.module_utils.verify.tables import table


def host_status(digest: str, audit: dict) -> str:
    """Return in one word or two how a host stands to the plan: `audit` is what M(heddle.ovn.audit) found there."""
    if not audit or audit.get("unreachable"):
        return "no answer"
    if audit.get("failed") or audit.get("problems"):
        return "not installed"
    if audit["digest"] != digest:
        return "behind"
    return "drifted" if audit["drift"] else "ready"


def network_status(name: str, digest: str, audits: dict) -> str:
    """Return `Ready`, or on which hosts the network is not as planned."""
    wrong = []
    for host, audit in sorted(audits.items()):
        state = host_status(digest, audit)
        if state == "drifted" and not any(entry["network"] in ("", name) for entry in audit["drift"]):
            state = "ready"
        if state != "ready":
            wrong.append(f"{host} {state}")
    return ", ".join(wrong) or "Ready"


def status_table(status: dict, audits: dict) -> str:
    """Return hosts, networks and workloads as text."""
    digest = status["digest"]
    nodes = [
        [
            name,
            node["id"],
            node["chassis"] or "not installed",
            " ".join(node["encapsulation"]),
            host_status(digest, audits.get(name) or {}),
        ]
        for name, node in sorted(status["nodes"].items())
    ]
    networks = [
        [
            name,
            network["id"],
            network["topology"],
            network["role"],
            " ".join(map(str, network["tunnel_keys"])),
            " ".join(network["subnets"]),
            " ".join(network["namespaces"]) or "all",
            network_status(name, digest, audits),
        ]
        for name, network in sorted(status["networks"].items(), key=lambda item: item[1]["id"])
    ]
    workloads = [
        [
            name,
            workload["node"],
            interface["name"],
            interface["network"],
            " ".join(interface["addresses"]),
            interface["mac"],
        ]
        for name, workload in sorted(status["workloads"].items())
        for interface in workload["interfaces"]
    ]
    network_head = ["name", "id", "topology", "role", "tunnel keys", "subnets", "namespaces", "status"]
    lines = [
        *table(f"Hosts ({len(nodes)})", ["name", "id", "chassis", "tunnel address", "status"], nodes),
        *table(f"Networks ({len(networks)})", network_head, networks),
        *table(
            f"Interfaces of workloads ({len(workloads)})",
            ["workload", "node", "interface", "network", "addresses", "MAC"],
            workloads,
        ),
    ]
    return "\n".join(lines)


class FilterModule:
    """Filters of the collection."""

    def filters(self):
        """Return the filters by name."""
        return {"status_table": status_table}
