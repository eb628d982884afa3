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
description: Turns what M(heddle.ovn.resource_info) returned into tables of hosts, networks and workloads.
options:
  _input:
    description: The result of M(heddle.ovn.resource_info).
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show the cluster
  ansible.builtin.debug:
    msg: "{{ cluster | heddle.ovn.status_table }}"
"""

RETURN = r"""
_value:
  description: The tables as text.
  type: str
"""


def table(title: str, head: list[str], rows: list[list]) -> list[str]:
    """Return the lines of a table whose columns are as wide as their content."""
    cells = [head, *[[str(cell) for cell in row] for row in rows]]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    return [f"{title} ({len(rows)})", "  " + lines[0], *("  " + line for line in lines[1:]), ""]


def status_table(status: dict) -> str:
    """Return hosts, networks and workloads as text."""
    nodes = [
        [name, node["id"], node["chassis"] or "not installed", " ".join(node["encapsulation"])]
        for name, node in sorted(status["nodes"].items())
    ]
    networks = [
        [
            name, network["id"], network["topology"], network["role"], " ".join(map(str, network["tunnel_keys"])),
            " ".join(network["subnets"]), " ".join(network["namespaces"]) or "all",
        ]
        for name, network in sorted(status["networks"].items(), key=lambda item: item[1]["id"])
    ]  # fmt: skip
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
    lines = [
        *table("Hosts", ["name", "id", "chassis", "tunnel address"], nodes),
        *table("Networks", ["name", "id", "topology", "role", "tunnel keys", "subnets", "namespaces"], networks),
        *table("Interfaces of workloads", ["workload", "node", "interface", "network", "addresses", "MAC"], workloads),
    ]
    return "\n".join(lines)


class FilterModule:
    """Filters of the collection."""

    def filters(self):
        """Return the filters by name."""
        return {"status_table": status_table}
