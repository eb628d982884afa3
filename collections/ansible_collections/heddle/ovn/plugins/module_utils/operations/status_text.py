# SPDX-License-Identifier: Apache-2.0
"""The state of the cluster as tables for a terminal: hosts, networks, workloads, and what needs attention."""

from __future__ import annotations

from collections.abc import Sequence

from ..api.kinds.address_pool import DEFAULT_BITS
from ..common.naming import DEFAULT_INTERFACE
from ..common.text.text_table import shortened, table
from ..controllers.kind_names import NETWORK_KINDS
from ..render.common.node_network import nodes_of
from .object_status import attention, object_status
from .readiness import READY, HostReports, host_state
from .status_view import alike_table, titled


def network_statuses(status: dict, audits: dict) -> dict[str, str]:
    """Return by network `Ready`, or the reasons why it is not: its own status, and hosts that are not as planned."""
    hosts = HostReports(status["host_plans"], audits)
    return {name: _network_status(name, network, status, hosts) for name, network in status["networks"].items()}


def _network_status(name: str, network: dict, status: dict, hosts: HostReports) -> str:
    document = status["objects"].get(network["object"])
    reason = object_status(document) if document else "Ready"
    states = hosts.of_network(name, network)
    wrong = [f"{host} {_short(state)}" for host, state in states.items() if state != READY]
    # The recorded readiness is older than the hosts' current states.
    stale = reason in ("HostsNotReady", "HostsNotAsked", "WaitingForHosts")
    return ", ".join(([] if reason == "Ready" or stale else [reason]) + wrong) or "Ready"


def _short(state: str) -> str:
    """Return a host's state without the reason."""
    return state.partition(":")[0]


def _troubles(status: dict, audits: dict) -> list[str]:
    """Return a line for each host that reported why it is not as planned."""
    states = {
        name: host_state(status["host_plans"].get(name, ""), audits.get(name) or {}) for name in sorted(status["nodes"])
    }
    return [f"{name}: {state}" for name, state in states.items() if ":" in state]


def _paths(audits: dict) -> list[str]:
    """Return a line for each path between hosts that does not carry what the networks need."""
    return [f"{host}: {line}" for host, audit in sorted(audits.items()) for line in (audit or {}).get("paths") or ()]


def _summary(
    status: dict, audits: dict, nodes: list[list], networks: list[list], more: Sequence[str]
) -> list[str]:  # fmt: skip
    """Return what needs attention, then networks that are not ready by their own status, and totals."""
    # A host without any of its networks is reported once, with the host.
    elsewhere = {f"{name} {state}" for name, *_row, state in nodes if state not in ("ready", "drifted")}
    waiting = [
        (row[0], row[-1])
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
        *titled("Attention", [*more, *troubles, *hosts, *_paths(audits), *attention(status["objects"])]),
        *alike_table("Networks that are not ready", ["name", "status"], waiting),
        *table("Totals", ["", "all", "ready"], totals),
    ]


def _pools(status: dict) -> list[str]:
    """Return the table of address pools; nothing without any."""
    pools = [
        [
            document["metadata"]["name"],
            2 ** document["spec"].get("blockSizeBits", DEFAULT_BITS),
            " ".join(text for entry in document["spec"]["subnets"] for _name, text in sorted(entry.items())),
            f"{document['status']['allocatedBlocks']} of {document['status']['maxBlocks']}",
            document["status"]["allocatedAddresses"],
            object_status(document),
        ]
        for document in status["objects"].values()
        if document["kind"] == "AddressPool"
    ]
    head = ["name", "block size", "subnets", "blocks", "addresses", "status"]
    return table(f"Address pools ({len(pools)})", head, pools) if pools else []


def _services(status: dict) -> list[str]:
    """Return the table of Services; nothing without any."""
    rows = [
        [
            f"{document['metadata']['namespace']}/{document['metadata']['name']}",
            document["spec"].get("type") or "ClusterIP",
            " ".join(reported.get("clusterIPs") or ()) or "-",
            _beyond(document["spec"]) or "-",
            " ".join(_ports(document["spec"].get("ports", ()), reported.get("nodePorts", ()))) or "-",
            ", ".join(f"{address} by {node}" for address, node in reported.get("announcers", {}).items()) or "-",
            _ready_of_all(status["endpoints"][f"{document['metadata']['namespace']}/{document['metadata']['name']}"]),
            object_status(document),
        ]
        for document in status["objects"].values()
        if document["kind"] == "Service"
        for reported in (document.get("status", {}),)
    ]
    head = ["name", "type", "cluster IPs", "external IPs", "ports", "load balancer", "endpoints", "status"]
    return table(f"Services ({len(rows)})", head, rows) if rows else []


def _beyond(spec: dict) -> str:
    """Return what a Service has beyond the cluster, as kubectl shows it: addresses, or the name that it stands for."""
    if spec.get("type") == "ExternalName":
        return spec["externalName"]
    return " ".join(spec.get("externalIPs") or ())


def _ready_of_all(endpoints: list[dict]) -> str:
    """Return how many endpoints are ready, of how many; `resource_info` returns each."""
    return f"{sum(one['ready'] for one in endpoints)}/{len(endpoints)}"


def _ports(ports: list[dict], node_ports: list[int]) -> list[str]:
    """Return ports as kubectl shows them, with their node ports."""
    numbers = node_ports or [0] * len(ports)
    return [
        f"{port['port']}{f':{number}' if number else ''}/{port.get('protocol') or 'TCP'}"
        for port, number in zip(ports, numbers, strict=False)
    ]


def _routing(audits: dict) -> list[str]:
    """Return the table of neighbours that hosts route blocks of pools with; nothing without any."""
    rows = [
        [host, one["title"] or "-", one["kind"], one["address"] or "-", one["as_number"] or "-",
         one["learned"], one["advertised"], one["information"]]
        for host, audit in sorted(audits.items())
        for one in (audit or {}).get("routing") or ()
    ]  # fmt: skip
    head = ["host", "neighbour", "by", "address", "AS", "learned", "advertised", "status"]
    return table(f"Neighbours of BIRD ({len(rows)})", head, rows) if rows else []


def _host_rows(status: dict, audits: dict) -> list[list]:
    return [
        [
            name,
            node["id"],
            node["chassis"] or "not installed",
            " ".join(node["encap_ips"]),
            _short(host_state(status["host_plans"].get(name, ""), audits.get(name) or {})),
        ]
        for name, node in sorted(status["nodes"].items())
    ]


def _network_rows(status: dict, states: dict[str, str]) -> list[list]:
    """Return the networks by id, with these states, then those that the plan does not have."""
    rows = [
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
            states[name],
        ]
        for name, network in sorted(status["networks"].items(), key=lambda item: item[1]["id"])
    ]
    realised = {network["object"] for network in status["networks"].values()}
    return rows + [
        [key, "-", "-", "-", "-", "-", "-", 0, 0, object_status(document)]
        for key, document in status["objects"].items()
        if document["kind"] in NETWORK_KINDS and key not in realised
    ]


def _interface_rows(status: dict) -> list[list]:
    rows = [
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
    return rows + [
        [name, workload["node"], DEFAULT_INTERFACE, f"pool {workload['pool']}", " ".join(workload["addresses"]), "-"]
        for name, workload in sorted(status.get("coil", {"workloads": {}})["workloads"].items())
    ]


def status_table(status: dict, audits: dict, summary: bool = False, more: Sequence[str] = ()) -> str:
    """Return hosts, networks and workloads as text; with `summary` what needs attention, and totals.

    `more` are lines of what needs attention beyond the state.
    """
    states = network_statuses(status, audits)
    if not summary:
        return full_table(status, audits, states)
    return "\n".join(_summary(status, audits, _host_rows(status, audits), _network_rows(status, states), more))


def full_table(status: dict, audits: dict, states: dict[str, str]) -> str:
    """Return hosts, networks and workloads as text; `states` as `network_statuses` returns them."""
    hosts, networks, interfaces = _host_rows(status, audits), _network_rows(status, states), _interface_rows(status)
    network_head = [
        "name", "id", "topology", "role", "tunnel keys", "subnets", "namespaces", "users", "hosts", "status",
    ]  # fmt: skip
    interface_head = ["workload", "node", "interface", "network", "addresses", "MAC"]
    lines = [
        *table(f"Hosts ({len(hosts)})", ["name", "id", "chassis", "tunnel address", "status"], hosts),
        *table(f"Networks ({len(networks)})", network_head, networks),
        *_pools(status),
        *_services(status),
        *_routing(audits),
        *table(f"Interfaces of workloads ({len(interfaces)})", interface_head, interfaces),
        *shortened("Attention", [*_troubles(status, audits), *_paths(audits), *attention(status["objects"])]),
    ]
    return "\n".join(lines)
