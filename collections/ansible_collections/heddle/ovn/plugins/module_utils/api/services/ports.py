# SPDX-License-Identifier: Apache-2.0
"""Ports of Services, EndpointSlices and workloads, validated as by a Kubernetes API server (core/v1, discovery/v1)."""

from __future__ import annotations

from collections.abc import Callable

from ..names import port_name_mistake, read_dns_label, read_qualified_name
from ..node import Fields, Node
from ..problem import show

PROTOCOLS = ("SCTP", "TCP", "UDP")
DEFAULT_PROTOCOL = "TCP"
_MOST = 65535


def read_port_number(node: Node) -> int | None:
    """A field that holds the number of a port."""
    if not isinstance(node.value, int) or isinstance(node.value, bool):
        return node.integer(1, _MOST)
    if not 1 <= node.value <= _MOST:
        node.refuse(f"Invalid value: {node.value}: must be between 1 and {_MOST}, inclusive")
        return None
    return node.value


def read_port_name(node: Node) -> str | None:
    """A field that holds the name of a workload's port (IANA service name)."""
    text = node.text()
    mistake = "" if text is None else port_name_mistake(text)
    if mistake:
        node.refuse(f"Invalid value: {show(text)}: {mistake}")
        return None
    return text


def read_port_number_or_name(node: Node) -> int | str | None:
    """A field that holds the number or the name of a port."""
    return read_port_name(node) if isinstance(node.value, str) else read_port_number(node)


def read_protocol(fields: Fields, *, may_be_empty: bool = False) -> str | None:
    """The field ``protocol``; in some kinds empty text is as good as none (`SetDefaults_Service`)."""
    node = fields.get("protocol")
    if node is None or (may_be_empty and node.value == ""):
        return DEFAULT_PROTOCOL
    return node.choice(PROTOCOLS)


def refuse_duplicates(nodes: list[Node], values: list, text: Callable[[object], str] = show) -> None:
    """Note each value that an earlier item has too; None and "" are no values."""
    seen = set()
    for node, value in zip(nodes, values, strict=True):
        if value in (None, ""):
            continue
        if value in seen:
            node.refuse(f"Duplicate value: {text(value)}")
        seen.add(value)


def read_service_ports(node: Node | None, *, has_node_ports: bool = False) -> list[dict]:
    """The ports of a Service: ``name`` ("" for none), ``protocol``, ``port``, ``targetPort`` (number or name) and
    ``nodePort`` (0 for none that is requested), which `has_node_ports` allows.
    """
    items = node.sequence() if node else []
    ports = [_service_port(item, is_named=len(items) > 1, has_node_ports=has_node_ports) for item in items]
    refuse_duplicates([item.child("name") for item in _mappings(items)], _values(items, ports, "name"))
    pairs = [(port["protocol"], port["port"]) if port["port"] else None for port in ports]
    refuse_duplicates(items, pairs, lambda pair: f"port {pair[1]} of protocol {pair[0]}")
    pairs = [(port["protocol"], port["nodePort"]) if port["nodePort"] else None for port in ports]
    refuse_duplicates(
        [item.child("nodePort") if isinstance(item.value, dict) else item for item in items],
        pairs,
        lambda pair: f"nodePort {pair[1]} of protocol {pair[0]}",
    )
    return ports


def _service_port(node: Node, *, is_named: bool, has_node_ports: bool) -> dict:
    fields = node.mapping(("name", "protocol", "port", "targetPort", "nodePort", "appProtocol"))
    name = fields.get("name")
    if is_named and (name is None or name.value == ""):
        fields.place("name").refuse("Required value", "a Service with several ports has a name for each")
    port_field, target = fields.require("port", "name the port that clients use"), fields.get("targetPort")
    port = read_port_number(port_field) if port_field else None
    node_port = fields.get("nodePort") if fields.get("nodePort") and fields.get("nodePort").value != 0 else None
    if node_port and not has_node_ports:
        node_port.refuse("Forbidden: may not be used when `type` is 'ClusterIP'", "remove it")
    _check_app_protocol(fields)
    return {
        "name": (read_dns_label(name) or "") if name and name.value != "" else "",
        "protocol": read_protocol(fields, may_be_empty=True),
        "port": port,
        "targetPort": read_port_number_or_name(target) if target and target.value not in (0, "") else port,
        "nodePort": (read_port_number(node_port) or 0) if node_port and has_node_ports else 0,
    }


def _check_app_protocol(fields: Fields) -> None:
    """It is for others: nothing here depends on it."""
    if node := fields.get("appProtocol"):
        read_qualified_name(node)


def read_slice_ports(node: Node | None) -> list[dict]:
    """The ports of an EndpointSlice: ``name`` ("" for none), ``protocol`` and ``port``.

    As in Kubernetes, one without a number is accepted, and leads to no endpoints.
    """
    items = node.sequence(most=100) if node else []
    ports = []
    for item in items:
        fields = item.mapping(("name", "protocol", "port", "appProtocol"))
        name, port = fields.get("name"), fields.get("port")
        _check_app_protocol(fields)
        ports.append(
            {
                "name": (read_dns_label(name) or "") if name and name.value != "" else "",
                "protocol": read_protocol(fields),
                "port": read_port_number(port) if port else None,
            }
        )
    refuse_duplicates(
        [item.child("name") for item in _mappings(items)],
        [(port["name"],) for item, port in zip(items, ports, strict=True) if isinstance(item.value, dict)],
        lambda name: show(name[0]),
    )
    return [port for port in ports if port["port"] is not None]


def read_workload_ports(node: Node | None) -> list[dict]:
    """The ports of a workload, as a container's: ``name`` ("" for none), ``protocol`` and ``containerPort``."""
    items = node.sequence() if node else []
    ports = []
    for item in items:
        fields = item.mapping(("name", "containerPort", "protocol"))
        name, port = fields.get("name"), fields.require("containerPort", "name the port that the workload listens on")
        ports.append(
            {
                "name": (read_port_name(name) or "") if name and name.value != "" else "",
                "protocol": read_protocol(fields, may_be_empty=True),
                "containerPort": read_port_number(port) if port else None,
            }
        )
    refuse_duplicates([item.child("name") for item in _mappings(items)], _values(items, ports, "name"))
    return ports


def _mappings(items: list[Node]) -> list[Node]:
    return [item for item in items if isinstance(item.value, dict)]


def _values(items: list[Node], ports: list[dict], field: str) -> list:
    return [port[field] for item, port in zip(items, ports, strict=True) if isinstance(item.value, dict)]
