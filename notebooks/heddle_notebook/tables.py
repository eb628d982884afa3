# SPDX-License-Identifier: Apache-2.0
"""Tables of hosts, networks, workloads and drift as HTML."""

from __future__ import annotations

from html import escape

from ansible_collections.heddle.ovn.plugins.plugin_utils.pages.colors import network_colors
from ansible_collections.heddle.ovn.plugins.plugin_utils.pages.markup import table

from .collection import cause_lines, foreign_lines, nodes_of


def _code(items) -> str:
    return "<br>".join(f"<code>{escape(str(item))}</code>" for item in items)


def network(plan: dict, name: str) -> str:
    """Return a network's name in its color."""
    color = network_colors(plan)[name].strong
    return f'<span style="font-weight: bold"><span style="color: {color}">&#9679;</span>&nbsp;{escape(name)}</span>'


def hosts(plan: dict) -> str:
    """Return the hosts."""
    rows = [
        [
            f"<b>{escape(name)}</b>", str(node["id"]), _code([node["chassis"] or "not installed"]),
            _code(node["encap_ips"]), _code(node["addresses"]),
        ]
        for name, node in plan["nodes"].items()
    ]  # fmt: skip
    return table(["host", "id", "chassis", "tunnel address", "own addresses"], rows)


def networks(plan: dict) -> str:
    """Return the networks."""
    rows = [
        [
            network(plan, name), str(one["id"]), f"{one['topology']} {one['role'].lower()}", str(one["mtu"]),
            _code(one["subnets"]), _code(one["tunnel_keys"]), str(len(nodes_of(plan, name))),
            escape(", ".join(one["namespaces"]) or "all others"),
        ]
        for name, one in sorted(plan["networks"].items(), key=lambda item: item[1]["id"])
    ]  # fmt: skip
    return table(["network", "id", "topology", "MTU", "subnets", "tunnel keys", "hosts", "namespaces"], rows)


def workloads(plan: dict) -> str:
    """Return the workloads and their interfaces."""
    rows = [
        [
            f"<b>{escape(name)}</b>", escape(one["node"]), _code([interface["name"]]),
            network(plan, interface["network"]), escape(interface["role"]),
            _code(interface["addresses"]), _code([interface["mac"]]),
        ]
        for name, one in plan["workloads"].items()
        for interface in one["interfaces"]
    ]  # fmt: skip
    return table(["workload", "host", "interface", "network", "role", "addresses", "MAC"], rows)


def drift(audit: dict) -> str:
    """Return each host's audit, and what differs by cause."""
    rows = [
        [
            f"<b>{escape(name)}</b>",
            _code([one["digest"]]),
            *(str(value) for value in (one["checked"], *(len(one[part]) for part in ("drift", "causes", "foreign")))),
        ]
        for name, one in audit["hosts"].items()
    ]
    found, foreign = (
        [[escape(name), escape(line)] for name, host in audit["hosts"].items() for line in lines(host)]
        for lines in (cause_lines, foreign_lines)
    )
    parts = [table(["host", "plan", "objects compared", "drift", "causes", "foreign objects"], rows)]
    if found:
        parts.append(table(["host", "drift by cause"], found))
    if foreign:
        parts.append(table(["host", "foreign object, left alone"], foreign))
    return "".join(parts)
