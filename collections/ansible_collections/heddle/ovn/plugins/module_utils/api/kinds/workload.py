# SPDX-License-Identifier: Apache-2.0
"""Workload: Heddle's own kind for something on a host that is attached to networks.

It joins the primary network of its namespace, and the secondary ones that its annotation selects.
"""

from __future__ import annotations

from ..addresses import read_addresses
from ..coil.egress_selection import read_egress_selection
from ..kind import Kind
from ..mac import read_mac
from ..names import read_dns_label, read_dns_subdomain
from ..networks.network_selection import read_network_selection
from ..node import Node
from ..services.ports import read_workload_ports
from ..services.readiness_probe import read_readiness_probe

_NETWORK_NAMESPACE = "netns"
_VIRTUAL_MACHINE = "vm"
# MiB. The guest's kernel does not start with less than the smallest.
_MEMORY = (64, 65536)
_DEFAULT_MEMORY = 96


def _read_spec(node: Node) -> dict | None:
    if node.value is None:
        node.refuse("is required", "add it with node")
        return None
    fields = node.mapping(("node", "kind", "memory", "movable", "addresses", "mac", "ports", "ready", "readiness"))
    host = fields.require("node", "name the host that it runs on")
    kind, memory = fields.get("kind"), fields.get("memory")
    movable, ready = fields.get("movable"), fields.get("ready")
    spec = {
        "node": read_dns_subdomain(host) if host else None,
        "kind": kind.choice((_NETWORK_NAMESPACE, _VIRTUAL_MACHINE)) if kind else _NETWORK_NAMESPACE,
        # Whether draining the node may stop it there and start it elsewhere.
        "movable": movable.boolean() if movable else True,
        # On the primary Layer2 network (ovn-kubernetes, preconfigured addresses); what is not asked for is chosen.
        "addresses": [str(field.value) for field in read_addresses(fields.get("addresses"), 2)],
        "mac": read_mac(fields.get("mac")),
    }
    # What Services know of it: named ports, and whether it is one of their endpoints.
    ports = read_workload_ports(fields.get("ports"))
    if ports:
        spec["ports"] = ports
    if ready and ready.boolean() is False:
        spec["ready"] = False
    if (readiness := fields.get("readiness")) and spec["kind"] == _VIRTUAL_MACHINE:
        # The host has no network namespace of a virtual machine to send the probe from.
        readiness.refuse(
            "is for network namespaces", "remove it; `ready` says whether a virtual machine is an endpoint"
        )
    elif readiness and (probe := read_readiness_probe(readiness, ports)):
        spec["readiness"] = probe
    if spec["kind"] == _VIRTUAL_MACHINE:
        spec["memory"] = memory.integer(*_MEMORY) if memory else _DEFAULT_MEMORY
    elif memory:
        memory.refuse("is for virtual machines", f"set kind to {_VIRTUAL_MACHINE}, or leave it out")
    return spec


def _read_annotations(annotations: Node, spec: dict) -> dict:
    return read_egress_selection(annotations, read_network_selection(annotations, spec))


KIND = Kind(
    name="Workload",
    api_versions=("heddle.dev/v1",),
    namespaced=True,
    read_spec=_read_spec,
    read_annotations=_read_annotations,
    # It becomes part of file names and of a host name.
    read_name=read_dns_label,
)
