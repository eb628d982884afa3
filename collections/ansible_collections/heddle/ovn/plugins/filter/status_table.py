# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Renders the cluster's state as tables for a terminal."""

from __future__ import annotations

DOCUMENTATION = r"""
name: status_table
short_description: The cluster as tables for a terminal
version_added: 0.1.0
author:
  - Heddle maintainers (@heddle)
description:
  - Renders the result of M(heddle.ovn.resource_info) as tables of hosts, networks and workloads.
  - A network is ready when its own status is and every host has it as planned.
  - Conditions that are not as they should be follow with reason and message.
  - With O(summary), these come first and are complete, followed only by networks that are not ready and totals.
positional: audits
options:
  _input:
    description: The result of M(heddle.ovn.resource_info).
    type: dict
    required: true
  audits:
    description:
      - The result of M(heddle.ovn.audit) by host.
      - Empty for a host that did not answer, C(failed) and C(msg) for one where the plan could not be applied,
        C(asked) false for one that was not asked.
    type: dict
    required: true
  summary:
    description: Whether to leave out what is as it should be.
    type: bool
    default: false
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


from ansible_collections.heddle.ovn.plugins.module_utils.common.text_table import shortened, table
from ansible_collections.heddle.ovn.plugins.module_utils.operations.readiness import host_state, network_states
from ansible_collections.heddle.ovn.plugins.module_utils.operations.status_view import (
    attention,
    object_status,
    titled,
)
from ansible_collections.heddle.ovn.plugins.module_utils.render.common.node_network import nodes_of

NETWORK_KINDS = ("UserDefinedNetwork", "ClusterUserDefinedNetwork")


def network_status(name: str, network: dict, status: dict, audits: dict) -> str:
    """Return `Ready`, or the reasons why the network is not: its own status, and hosts that are not as planned."""
    document = status["objects"].get(network["object"])
    reason = object_status(document) if document else "Ready"
    states = network_states(name, network, status["digest"], audits)
    wrong = [f"{host} {_short(state)}" for host, state in states.items() if state != "ready"]
    # The recorded readiness is older than the hosts' current states.
    stale = reason in ("HostsNotReady", "HostsNotAsked", "WaitingForHosts")
    return ", ".join(([] if reason == "Ready" or stale else [reason]) + wrong) or "Ready"


def _short(state: str) -> str:
    """Return a host's state without the reason."""
    return state.partition(":")[0]


def _troubles(status: dict, audits: dict) -> list[str]:
    """Return a line for each host that reported why it is not as planned."""
    states = {name: host_state(status["digest"], audits.get(name) or {}) for name in sorted(status["nodes"])}
    return [f"{name}: {state}" for name, state in states.items() if ":" in state]


def _summary(status: dict, audits: dict, nodes: list[list], networks: list[list]) -> list[str]:
    """Return what needs attention, then networks that are not ready by their own status, and totals."""
    # A host without any of its networks is reported once, with the host.
    elsewhere = {f"{name} {state}" for name, *_row, state in nodes if state not in ("ready", "drifted")}
    waiting = [
        [row[0], row[-1]]
        for row in networks
        if row[-1] != "Ready" and not {*row[-1].split(", ")} <= elsewhere
    ]  # fmt: skip
    ready = sum(row[-1] == "Ready" for row in networks)
    workloads = [document for document in status["objects"].values() if document["kind"] == "Workload"]
    totals = [
        ["hosts", len(nodes), sum(row[-1] == "ready" for row in nodes)],
        ["networks", len(networks), ready],
        ["workloads", len(workloads), sum(object_status(document) in ("Ready", "Running") for document in workloads)],
    ]
    hosts = [f"{row[0]}: {row[-1]}" for row in nodes if row[-1] != "ready"]
    troubles = _troubles(status, audits)
    hosts = [line for line in hosts if not any(trouble.startswith(line) for trouble in troubles)]
    return [
        *titled("Attention", [*troubles, *hosts, *attention(status["objects"])]),
        *(table(f"Networks that are not ready ({len(waiting)})", ["name", "status"], waiting) if waiting else []),
        *table("Totals", ["", "all", "ready"], totals),
    ]


def status_table(status: dict, audits: dict, summary: bool = False) -> str:
    """Return hosts, networks and workloads as text."""
    nodes = [
        [
            name,
            node["id"],
            node["chassis"] or "not installed",
            " ".join(node["encap_ips"]),
            _short(host_state(status["digest"], audits.get(name) or {})),
        ]
        for name, node in sorted(status["nodes"].items())
    ]
    networks = [
        [
            name,
            str(network["id"]),
            network["topology"],
            network["role"],
            " ".join(map(str, network["tunnel_keys"])),
            " ".join(network["subnets"]),
            " ".join(network["namespaces"]) or "all",
            len(status["users"][name]),
            len(nodes_of(status, name)),
            network_status(name, network, status, audits),
        ]
        for name, network in sorted(status["networks"].items(), key=lambda item: item[1]["id"])
    ]
    realised = {network["object"] for network in status["networks"].values()}
    networks += [
        [key, "-", "-", "-", "-", "-", "-", 0, 0, object_status(document)]
        for key, document in status["objects"].items()
        if document["kind"] in NETWORK_KINDS and key not in realised
    ]
    if summary:
        return "\n".join(_summary(status, audits, nodes, networks))
    interfaces = [
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
    network_head = [
        "name",
        "id",
        "topology",
        "role",
        "tunnel keys",
        "subnets",
        "namespaces",
        "users",
        "hosts",
        "status",
    ]
    lines = [
        *table(f"Hosts ({len(nodes)})", ["name", "id", "chassis", "tunnel address", "status"], nodes),
        *table(f"Networks ({len(networks)})", network_head, networks),
        *table(
            f"Interfaces of workloads ({len(interfaces)})",
            ["workload", "node", "interface", "network", "addresses", "MAC"],
            interfaces,
        ),
        *shortened("Attention", [*_troubles(status, audits), *attention(status["objects"])]),
    ]
    return "\n".join(lines)


class FilterModule:
    """Filters of the collection."""

    def filters(self):
        """Return the filters by name."""
        return {"status_table": status_table}
