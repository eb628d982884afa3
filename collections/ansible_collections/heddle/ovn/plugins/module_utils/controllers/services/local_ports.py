# SPDX-License-Identifier: Apache-2.0
"""Ports by which hosts lead packets to their own endpoints of Services without node ports.

In local gateway mode a host keeps source addresses (`externalTrafficPolicy: Local`) by translating what comes in to a
masquerade address and the node port, which OVN leads to the endpoints of the host (`render/host/service_rules.py`). A
port of a Service that has no node port has a number of its own there. It is below those of node ports, whose VIPs have
the same address, and no packet beyond the host has it.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...api.services.external_access import LOCAL
from ...store.snapshot import Snapshot, StoredObject
from ..allocation.pools import Pool, numbers
from .cluster_ips import SERVICE, is_headless, service_owner
from .node_ports import NODE_PORTS, wanted_node_ports

LOCAL_PORT_POOL = "local-port"


def local_ports(snapshot: Snapshot, service: StoredObject) -> list[int]:
    """Return the number of each port of a Service, 0 for none."""
    held = snapshot.allocations.get(LOCAL_PORT_POOL, {})
    return [int(held.get(_owner(service, port), 0)) for port in service.spec["ports"]]


def local_port_pools(snapshot: Snapshot) -> Iterator[Pool]:
    """The pool of these numbers, where a host is in local gateway mode."""
    if not any((node.spec.get("gateway") or {}).get("mode") == "local" for node in snapshot.of_kind("Node")):
        return
    owners = {
        _owner(service, port): service.key
        for service in snapshot.of_kind(SERVICE)
        if service.spec.get("externalTrafficPolicy") == LOCAL and not is_headless(service)
        for port, has_node_port in zip(service.spec["ports"], wanted_node_ports(service), strict=True)
        if not has_node_port
    }
    if owners:
        first, last = 1, NODE_PORTS[0] - 1
        holds = f"ports {first} to {last} for Services without node ports (externalTrafficPolicy Local)"
        yield Pool(LOCAL_PORT_POOL, holds, "let some of them have node ports", numbers(first, last), owners)


def _owner(service: StoredObject, port: dict) -> str:
    return f"{service_owner(service)}/{port['protocol']}/{port['port']}"
