# SPDX-License-Identifier: Apache-2.0
"""The annotation with which a workload selects its secondary networks.

Kubernetes Network Custom Resource Definition De-facto Standard, section 4.1 ("Network Attachment Selection
Annotation"), as Multus and ovn-kubernetes read it: a comma-separated list of `[namespace/]name[@interface]`, or a JSON
list of objects.
"""

from __future__ import annotations

import ipaddress
import json
import re

from ...common.naming import DEFAULT_INTERFACE, PRIMARY_INTERFACE
from ..addresses import parse_cidr, read_address
from ..mac import read_mac
from ..names import read_dns_label, read_dns_subdomain
from ..node import Fields, Node
from ..problem import path_text, show

NETWORKS = "k8s.v1.cni.cncf.io/networks"
# Annotations of pods that ask for what a Workload's spec has, or that only a controller writes.
_ELSEWHERE = {
    "v1.multus-cni.io/default-network": (
        "a workload's default network cannot be replaced by this annotation",
        "remove it; spec.addresses and spec.mac request addresses and MAC on the primary network",
    ),
    "k8s.ovn.org/pod-networks": (
        "is written by ovn-kubernetes, and Heddle allocates addresses itself",
        "remove it; spec.addresses, or ips in the annotation " + NETWORKS + ", request addresses",
    ),
}
_FIELDS = ("name", "namespace", "interface", "ips", "mac", "default-route")
_UNSUPPORTED = {
    "infiniband-guid": "remove it, workloads have Ethernet interfaces only",
    "cni-args": "remove it, there is no CNI plugin that would read them",
    "portMappings": "remove it, ports of the host are not mapped to workloads",
    "bandwidth": "remove it, interfaces have no bandwidth limit",
    "deviceID": "remove it, there are no devices to choose from",
    "ipam-claim-reference": "remove it; a network with ipam.lifecycle Persistent keeps a workload's addresses",
    "interfaceRequest": "write interface",
}
_JSON_CHARACTERS = re.compile(r'[\[{"]')
_INTERFACE = re.compile(r"[A-Za-z0-9_.-]{1,15}")
# `all` and `default` are directories of the kernel's settings of interfaces (ip-sysctl).
_NO_INTERFACES = (".", "..", "all", "default", "lo", DEFAULT_INTERFACE, PRIMARY_INTERFACE)
_MOST_NETWORKS = 100
_MOST_ADDRESSES = 16


def selection_path(position: int, field: str = "") -> str:
    """Return the path of one selected network, counted from 0, or of a field of it, as messages have it."""
    return path_text(("metadata", "annotations", NETWORKS, position, *([field] if field else [])))


def read_network_selection(annotations: Node, spec: dict) -> dict:
    """Return a workload's spec with `networks`, what its annotations select, in their order.

    Each has `name`, `namespace` (None for the workload's own), `interface`, `ips` (with prefix length), `mac` or None,
    and `gateways`. An interface without a requested name is `net` and its position from 1, as Multus names it.
    """
    values = annotations.value if isinstance(annotations.value, dict) else {}
    for key, (rule, remedy) in _ELSEWHERE.items():
        if key in values:
            annotations.child(key).refuse(rule, remedy)
    text = values.get(NETWORKS)
    if not isinstance(text, str) or not text.strip():
        return {**spec, "networks": []}
    node = annotations.child(NETWORKS)
    items = _json_items(node) if _JSON_CHARACTERS.search(text) else _short_items(node)
    networks = [network for position, item in enumerate(items, 1) if (network := _read_network(item, position))]
    _check_interfaces(items, networks)
    _check_gateways(items, networks, is_machine=spec["kind"] == "vm")
    return {**spec, "networks": networks}


def _json_items(node: Node) -> list[Node]:
    try:
        value = json.loads(node.value)
    except (ValueError, RecursionError) as error:
        place = f" from character {error.pos + 1} on" if isinstance(error, json.JSONDecodeError) else ""
        node.refuse(f"is no JSON{place}", 'write [{"name": "net"}], or a comma-separated list of names')
        return []
    if not isinstance(value, list):
        node.refuse(f"expected a list of networks, got {show(value)}", "put it in brackets")
        return []
    return Node(value, node.path, node.report).sequence(0, _MOST_NETWORKS)


def _short_items(node: Node) -> list[Node]:
    parts = [_short_item(part) for part in node.value.split(",")]
    return Node(parts, node.path, node.report).sequence(0, _MOST_NETWORKS)


def _short_item(text: str) -> dict:
    """Return `[namespace/]name[@interface]` as an object of the JSON form."""
    reference, at, interface = text.partition("@")
    namespace, slash, name = reference.rpartition("/")
    item = {"name": name.strip()}
    if slash:
        item["namespace"] = namespace.strip()
    if at:
        item["interface"] = interface.strip()
    return item


def _read_network(node: Node, position: int) -> dict | None:
    fields = node.mapping((*_FIELDS, *_UNSUPPORTED))
    for name, remedy in _UNSUPPORTED.items():
        if field := fields.get(name):
            field.refuse("is not supported by Heddle", remedy)
    name = fields.require("name", "name the network attachment definition")
    namespace, mac = fields.get("namespace"), fields.get("mac")
    read = {
        "name": read_dns_subdomain(name) if name else None,
        "namespace": read_dns_label(namespace) if namespace else None,
        "interface": _read_interface(fields, position),
        "ips": _read_interface_addresses(fields.get("ips")),
        "mac": read_mac(mac) if mac else None,
        "gateways": _read_gateways(fields.get("default-route")),
    }
    return read if read["name"] else None


def _read_interface(fields: Fields, position: int) -> str:
    node = fields.get("interface")
    text = node.text() if node else None
    if text is None:
        return f"net{position}"
    if not _INTERFACE.fullmatch(text) or text in _NO_INTERFACES:
        node.refuse(
            f"{show(text)} cannot be the name of this interface",
            f"use 1 to 15 letters, digits, '-', '_' and '.', and none of {', '.join(_NO_INTERFACES)}",
        )
    return text


def _read_interface_addresses(node: Node | None) -> list[str]:
    found = []
    for item in node.sequence(1, _MOST_ADDRESSES) if node else []:
        text = item.text()
        parsed = parse_cidr(text) if text is not None else None
        if parsed:
            address, network = parsed
            if _is_of_one_interface(address, network):
                found.append(f"{address}/{network.prefixlen}")
            else:
                item.refuse(f"{show(text)} is not the address of one interface", "choose another one")
        elif text is not None:
            item.refuse(f"Invalid value: {show(text)}: no address with a prefix length", "write 192.0.2.20/24")
    return found


def _is_of_one_interface(address, network) -> bool:
    if address.is_multicast or address.is_unspecified or address.is_loopback or address.is_link_local:
        return False
    ends = (network.network_address, network.broadcast_address)
    return network.prefixlen >= network.max_prefixlen - 1 or address not in (ends if address.version == 4 else ends[:1])


def _read_gateways(node: Node | None) -> list[str]:
    found = []
    for field in [read_address(item) for item in node.sequence(1, 2)] if node else []:
        if field and (field.value.is_multicast or field.value.is_unspecified or field.value.is_loopback):
            field.node.refuse(f"{field.value} is not the address of a gateway", "choose another one")
        elif field:
            found.append(str(field.value))
    return found


def _check_interfaces(items: list[Node], networks: list[dict]) -> None:
    if len(items) != len(networks):
        return
    holders: dict[str, int] = {}
    for position, network in enumerate(networks):
        other = holders.setdefault(network["interface"], position)
        if other != position:
            items[position].refuse(
                f"has the interface {network['interface']}, as network {other + 1} of the list has",
                "request another one; without a request it is net and the position in the list, from 1",
            )


def _check_gateways(items: list[Node], networks: list[dict], *, is_machine: bool) -> None:
    if len(items) != len(networks):
        return
    chosen: set[int] = set()
    for item, network in zip(items, networks, strict=True):
        for gateway in network["gateways"]:
            version = ipaddress.ip_address(gateway).version
            if version in chosen:
                # Multus: "does not support ECMP for default-route".
                item.refuse(f"default-route has a second IPv{version} gateway, {gateway}", "leave one of each family")
            chosen.add(version)
        if network["gateways"] and is_machine:
            item.refuse("default-route cannot be set in a virtual machine", "remove it, and set the route in the guest")
