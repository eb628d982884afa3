# SPDX-License-Identifier: Apache-2.0
"""EndpointSlice (Kubernetes, discovery.k8s.io/v1): endpoints of a Service that are no workloads.

The label kubernetes.io/service-name has the name of the Service.
"""

from __future__ import annotations

from ..addresses import Address, parse_address
from ..kind import Kind
from ..names import read_dns_label, read_dns_subdomain
from ..node import Fields, Node
from ..problem import show
from ..services.ports import read_slice_ports

_VERSIONS = {"IPv4": 4, "IPv6": 6}
_MOST_ENDPOINTS, _MOST_ADDRESSES = 1000, 100
_FIELDS = ("addressType", "endpoints", "ports")
_CONDITIONS = ("ready", "serving", "terminating")
_ENDPOINT_FIELDS = (
    "addresses", "conditions", "hostname", "nodeName", "targetRef", "zone", "hints", "deprecatedTopology",
)  # fmt: skip


def _read(fields: Fields) -> dict | None:
    kind = fields.require("addressType", "set it to IPv4 or IPv6")
    written = kind.choice(("FQDN", *_VERSIONS)) if kind else None
    if written == "FQDN":
        kind.refuse("FQDN is accepted by the API, not supported by Heddle yet", "use IPv4 or IPv6")
        return None
    endpoints = fields.get("endpoints")
    items = endpoints.sequence(most=_MOST_ENDPOINTS) if endpoints else []
    return {
        "addressType": written,
        "endpoints": [_endpoint(item, _VERSIONS.get(written)) for item in items],
        "ports": read_slice_ports(fields.get("ports")),
    }


def _endpoint(node: Node, version: int | None) -> dict:
    fields = node.mapping(_ENDPOINT_FIELDS)
    addresses, conditions = fields.require("addresses", "list its address"), fields.get("conditions")
    hostname, host = fields.get("hostname"), fields.get("nodeName")
    states = conditions.mapping(_CONDITIONS) if conditions else None
    items = addresses.sequence(most=_MOST_ADDRESSES) if addresses else []
    if addresses and addresses.value == []:
        addresses.refuse("Required value: must contain at least 1 address")
    name = read_dns_label(hostname) if hostname else None
    # Kubernetes: an unknown state counts as ready and serving, and not as terminating.
    ready, serving, terminating = (_state(states, one, one != "terminating") for one in _CONDITIONS)
    return {
        **({"hostname": name} if name else {}),
        "addresses": [text for item in items if (text := _address(item, version))],
        "ready": ready,
        # Used where no endpoint is ready.
        **({"terminating": True} if serving and terminating and not ready else {}),
        "node": read_dns_subdomain(host) if host else None,
    }


def _state(states: Fields | None, name: str, unknown: bool) -> bool | None:
    node = states.get(name) if states else None
    return node.boolean() if node else unknown


def _address(node: Node, version: int | None) -> str | None:
    text = node.text()
    if text is None:
        return None
    address = parse_address(text)
    if address is None or version not in (None, address.version):
        node.refuse(f"Invalid value: {show(text)}: must be a valid IP{f'v{version}' if version else ''} address")
        return None
    mistake = _special(address)
    if mistake:
        node.refuse(f"Invalid value: {show(text)}: {mistake}")
        return None
    return str(address)


def _special(address: Address) -> str:
    """Why an address cannot be an endpoint (Kubernetes, ValidateNonSpecialIP); "" when it can."""
    if address.is_unspecified:
        return f"may not be unspecified ({address})"
    if address.is_loopback:
        return "may not be in the loopback range (127.0.0.0/8, ::1/128)"
    if address.is_multicast:
        return "may not be a multicast address"
    if address.is_link_local:
        return "may not be in the link-local range (169.254.0.0/16, fe80::/10)"
    return ""


KIND = Kind(
    name="EndpointSlice",
    api_versions=("discovery.k8s.io/v1",),
    namespaced=True,
    # As kubectl has it.
    default_namespace="default",
    read_spec=_read,
    root_fields=_FIELDS,
)
