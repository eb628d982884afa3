# SPDX-License-Identifier: Apache-2.0
"""Workload: Heddle's own kind for something on a host that is attached to the networks of its namespace."""

from __future__ import annotations

import re

from ..addresses import read_addresses
from ..kind import Kind
from ..names import read_dns_label, read_dns_subdomain
from ..node import Node
from ..problem import show

_NETWORK_NAMESPACE = "netns"
_VIRTUAL_MACHINE = "vm"
# MiB. The guest's kernel does not start with less than the smallest.
_MEMORY = (64, 65536)
_DEFAULT_MEMORY = 96
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
_NO_MAC = "00:00:00:00:00:00"


def _read_spec(node: Node) -> dict | None:
    if node.value is None:
        node.refuse("is required", "add it with node")
        return None
    fields = node.mapping(("node", "kind", "memory", "movable", "addresses", "mac"))
    host = fields.require("node", "name the host that it runs on")
    kind, memory = fields.get("kind"), fields.get("memory")
    movable = fields.get("movable")
    spec = {
        "node": read_dns_subdomain(host) if host else None,
        "kind": kind.choice((_NETWORK_NAMESPACE, _VIRTUAL_MACHINE)) if kind else _NETWORK_NAMESPACE,
        # Whether draining the node may stop it there and start it elsewhere.
        "movable": movable.boolean() if movable else True,
        # On the primary Layer2 network (ovn-kubernetes, preconfigured addresses); what is not asked for is chosen.
        "addresses": [str(field.value) for field in read_addresses(fields.get("addresses"), 2)],
        "mac": _read_mac(fields.get("mac")),
    }
    if spec["kind"] == _VIRTUAL_MACHINE:
        spec["memory"] = memory.integer(*_MEMORY) if memory else _DEFAULT_MEMORY
    elif memory:
        memory.refuse("is for virtual machines", f"set kind to {_VIRTUAL_MACHINE}, or leave it out")
    return spec


def _read_mac(node: Node | None) -> str | None:
    text = node.text() if node else None
    if text is None:
        return None
    mac = text.lower().replace("-", ":")
    if not _MAC.fullmatch(mac):
        node.refuse(f"MAC is invalid: {show(text)}", "write six octets, as in 0a:58:0a:00:00:05")
        return None
    if int(mac[:2], 16) & 1 or mac == _NO_MAC:
        node.refuse(f"{mac} is not the MAC of one interface", "write a unicast MAC, as in 0a:58:0a:00:00:05")
        return None
    return mac


KIND = Kind(
    name="Workload",
    api_versions=("heddle.dev/v1",),
    namespaced=True,
    read_spec=_read_spec,
    # It becomes part of file names and of a host name.
    read_name=read_dns_label,
)
