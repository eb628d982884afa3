# SPDX-License-Identifier: Apache-2.0
"""The setting `shared_services`: services of the default network that every network may reach (OKEP-5193, "Services").

ovn-kubernetes names two of them, the API server and the cluster's DNS (`default/kubernetes`, `kube-system/kube-dns`).
"""

from __future__ import annotations

import ipaddress
import re

SETTING = "shared_services"
PROTOCOLS = ("TCP", "UDP", "SCTP")
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?/[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_FIELDS = {"name", "address", "ports", "endpoints"}
_PORT_FIELDS = {"protocol", "port", "target"}


def mistakes(value, service_subnets: list[str]) -> list[str]:
    """Return the errors in the setting, one line each.

    An entry has `name` (namespace/name), `address` in one of the service subnets, `ports` (`protocol`, `port`, and
    `target` where it differs) and `endpoints`: addresses of hosts or workloads, or workloads as namespace/name.
    """
    if not isinstance(value, list):
        return [f"must be a list, not {value!r}"]
    found: list[str] = []
    taken: set[str] = set()
    for number, entry in enumerate(value):
        if not isinstance(entry, dict) or not entry.keys() >= _FIELDS or entry.keys() - _FIELDS:
            found.append(f"entry {number}: must have {', '.join(sorted(_FIELDS))}")
            continue
        found += [f"entry {number}: {text}" for text in _entry_mistakes(entry, service_subnets)]
        address = str(_address(entry["address"]) or entry["address"])
        if address in taken:
            found.append(f"entry {number}: {entry['address']} is another service's address")
        taken.add(address)
    return found


def in_standard_notation(entry: dict) -> dict:
    """Return an entry without mistakes with its addresses as the `ipaddress` module writes them."""
    endpoints = [str(_address(text) or text) for text in entry["endpoints"]]
    return {**entry, "address": str(_address(entry["address"])), "endpoints": endpoints}


def _entry_mistakes(entry: dict, service_subnets: list[str]) -> list[str]:
    found = []
    if not isinstance(entry["name"], str) or not _NAME.fullmatch(entry["name"]):
        found.append(f"name must be namespace/name, not {entry['name']!r}")
    address = _address(entry["address"])
    if address is None or not any(
        address.version == subnet.version and address in subnet for subnet in map(ipaddress.ip_network, service_subnets)
    ):
        found.append(f"address must be in a service subnet ({', '.join(service_subnets)}), not {entry['address']!r}")
    ports = entry["ports"]
    if not isinstance(ports, list) or not ports or not all(_is_port(port) for port in ports):
        found.append(f"ports must have protocol ({', '.join(PROTOCOLS)}), port and, if it differs, target")
    endpoints = entry["endpoints"]
    if not isinstance(endpoints, list) or not all(_is_endpoint(text, address) for text in endpoints):
        found.append("endpoints must be addresses of the same family, or workloads as namespace/name")
    return found


def _address(text):
    try:
        return ipaddress.ip_address(text) if isinstance(text, str) else None
    except ValueError:
        return None


def _is_port(port) -> bool:
    return (
        isinstance(port, dict)
        and port.keys() >= {"protocol", "port"}
        and not port.keys() - _PORT_FIELDS
        and port["protocol"] in PROTOCOLS
        and all(_is_number(port[key]) for key in ("port", "target") if key in port)
    )


def _is_number(value) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 65536


def _is_endpoint(text, service) -> bool:
    if not isinstance(text, str):
        return False
    address = _address(text)
    if address is None:
        return _NAME.fullmatch(text) is not None
    return service is None or address.version == service.version
