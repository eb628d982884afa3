# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The data of the page: what its scripts show, from the files of a report."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from ansible_collections.heddle.ovn.plugins.module_utils.controllers.kind_names import NETWORK_KINDS
from ansible_collections.heddle.ovn.plugins.module_utils.operations.object_status import attention, object_status
from ansible_collections.heddle.ovn.plugins.module_utils.render.common.node_network import nodes_of

from .report_directory import ReportDirectory
from .runs import runs
from .views import network_names, node_views


def page_data(directory: Path, moment: datetime, texts: dict[str, str] | None = None) -> dict:
    """Return the data of the page, of the results in `directory`; `moment` is when the page is made.

    `texts` has, by name, the texts of files that are about to be written there.
    Without status.json there are no hosts, networks and workloads. Results that cannot be read are in `problems`.
    """
    report = ReportDirectory(directory, texts)
    status = report.read("status.json") or {}
    try:
        fleet = _fleet(status)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        report.problems.append(f"status.json is of another version ({error!r}); run heddle.ovn.status again")
        status, fleet = {}, _fleet({})
    data = {
        "made": moment.isoformat(timespec="seconds"),
        "deployment": status.get("deployment", ""),
        "revision": status.get("revision"),
        "digest": status.get("digest", ""),
        "host_plans": status.get("host_plans", {}),
        "time": status.get("time"),
        "runs": runs(report),
        "links": report.pages(),
        **fleet,
    }
    return {**data, "problems": report.problems}


def _fleet(status: dict) -> dict:
    objects = status.get("objects", {})
    states = status.get("host_states", {})
    lines = [f"{name}: {state}" for name, state in states.items() if state != "ready"]
    return {
        "known": bool(status),
        "hosts": [_host(name, node, states.get(name, "unknown")) for name, node in status.get("nodes", {}).items()],
        "networks": _networks(status, objects),
        "workloads": _workloads(status, objects),
        "attention": [*lines, *attention(objects)],
    }


def _host(name: str, node: dict, state: str) -> dict:
    gateway = node.get("gateway") or {}
    return {
        "name": name,
        "id": node["id"],
        "chassis": node["chassis"],
        "encap": node["encap_ips"],
        "addresses": node["addresses"],
        "mode": gateway.get("mode", ""),
        "bridge": gateway.get("bridge", ""),
        "uplink": gateway.get("uplink", ""),
        "next_hops": gateway.get("next_hops", []),
        "physical": gateway.get("physical_networks", {}),
        "layer2": node.get("layer2_topology_version", ""),
        "state": state,
    }


def _networks(status: dict, objects: dict) -> list[dict]:
    """Return all networks by id; those that are on no host because of their status come last."""
    found = []
    realised = set()
    for name, network in sorted(status.get("networks", {}).items(), key=lambda item: item[1]["id"]):
        realised.add(network["object"])
        found.append(
            {
                "name": name,
                "id": network["id"],
                "topology": network["topology"],
                "role": network["role"],
                "keys": network["tunnel_keys"],
                "subnets": network["subnets"],
                "namespaces": network["namespaces"],
                "mtu": network["mtu"],
                "vlan": network.get("vlan"),
                "physical": network.get("physical_network", ""),
                "nodes": nodes_of(status, name),
                "users": status["users"][name],
                "state": status["network_states"][name],
                "names": network_names(name, network),
                "views": node_views(status, name),
                "object": objects.get(network["object"]),
            }
        )
    return found + [
        _unrealised(key, document)
        for key, document in objects.items()
        if document["kind"] in NETWORK_KINDS and key not in realised
    ]


def _unrealised(key: str, document: dict) -> dict:
    spec = document["spec"].get("network", document["spec"])
    topology = spec.get("topology", "")
    return {
        "name": key,
        "id": None,
        "topology": topology,
        "role": (spec.get(topology.lower()) or {}).get("role", ""),
        "keys": [],
        "subnets": [],
        "namespaces": [document["metadata"]["namespace"]] if "namespace" in document["metadata"] else [],
        "mtu": None,
        "vlan": None,
        "physical": "",
        "nodes": [],
        "users": [],
        "state": object_status(document),
        "names": {},
        "views": {},
        "object": document,
    }


def _workloads(status: dict, objects: dict) -> list[dict]:
    """Return the workloads; those that wait have no interfaces."""
    running = status.get("workloads", {})
    states = status.get("workload_states", {})
    return [
        {
            "name": key,
            "node": (running.get(key) or objects[f"Workload/{key}"]["spec"]).get("node", ""),
            "kind": (running.get(key) or objects[f"Workload/{key}"]["spec"]).get("kind", "netns"),
            "state": state,
            "interfaces": [
                {
                    "name": one["name"],
                    "network": one["network"],
                    "addresses": one["addresses"],
                    "mac": one["mac"],
                    "role": one["role"],
                    "key": one["tunnel_id"],
                }
                for one in running.get(key, {}).get("interfaces", ())
            ],
            "conditions": [] if state in ("Ready", "Running") else _conditions(objects[f"Workload/{key}"]),
        }
        for key, state in sorted(states.items())
    ]


def _conditions(document: dict) -> list[dict]:
    return document.get("status", {}).get("conditions", [])
