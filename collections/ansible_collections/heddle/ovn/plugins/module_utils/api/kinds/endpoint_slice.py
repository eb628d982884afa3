# SPDX-License-Identifier: Apache-2.0
"""EndpointSlice (Kubernetes, discovery.k8s.io/v1): endpoints of a Service that are no workloads.

The label kubernetes.io/service-name has the name of the Service.
"""

from __future__ import annotations

from ..addresses import Address, parse_address
from ..kind import Kind
from ..names import is_dns_label, is_dns_subdomain, read_dns_label, read_dns_subdomain
from ..node import Fields, Node
from ..problem import show
from ..services.ports import read_slice_ports

FQDN = "FQDN"
_VERSIONS = {"IPv4": 4, "IPv6": 6}
_MOST_ENDPOINTS, _MOST_ADDRESSES = 1000, 100
# Of a fully qualified domain name.
_LEAST_LABELS = 2
_FIELDS = ("addressType", "endpoints", "ports")
_CONDITIONS = ("ready", "serving", "terminating")
_ENDPOINT_FIELDS = (
    "addresses", "conditions", "hostname", "nodeName", "targetRef", "zone", "hints", "deprecatedTopology",
)  # fmt: skip


def _read(fields: Fields) -> dict | None:
    kind = fields.require("addressType", "set it to IPv4 or IPv6")
    written = kind.choice((FQDN, *_VERSIONS)) if kind else None
    endpoints = fields.get("endpoints")
    items = endpoints.sequence(most=_MOST_ENDPOINTS) if endpoints else []
    read = [_endpoint(item, written) for item in items]
    return {
        "addressType": written,
        # Names are no endpoints here, as with Kubernetes' service proxies.
        "endpoints": [] if written == FQDN else read,
        "ports": read_slice_ports(fields.get("ports")),
    }


def _endpoint(node: Node, kind: str | None) -> dict:
    fields = node.mapping(_ENDPOINT_FIELDS)
    addresses, conditions = fields.require("addresses", "list its address"), fields.get("conditions")
    hostname, host = fields.get("hostname"), fields.get("nodeName")
    states = conditions.mapping(_CONDITIONS) if conditions else None
    items = addresses.sequence(most=_MOST_ADDRESSES) if addresses else []
    if addresses and addresses.value == []:
        addresses.refuse("Required value: must contain at least 1 address")
    name, version = read_dns_label(hostname) if hostname else None, _VERSIONS.get(kind)
    read_address = _name if kind == FQDN else lambda item: _address(item, version)
    # Kubernetes: an unknown state counts as ready and serving, and not as terminating.
    ready, serving, terminating = (_state(states, one, one != "terminating") for one in _CONDITIONS)
    return {
        **({"hostname": name} if name else {}),
        "addresses": [text for item in items if (text := read_address(item))],
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


def _name(node: Node) -> str | None:
    """A fully qualified domain name (Kubernetes, `IsFullyQualifiedDomainName`); a dot at its end is allowed."""
    text = node.text()
    if text is None:
        return None
    labels = text.removesuffix(".").split(".")
    if not text:
        node.refuse("Required value")
    elif not is_dns_subdomain(".".join(labels)) or not all(map(is_dns_label, labels)):
        node.refuse(f"Invalid value: {show(text)}: must be a fully qualified domain name in lower case")
    elif len(labels) < _LEAST_LABELS:
        node.refuse(f"Invalid value: {show(text)}: should be a domain with at least two segments separated by dots")
    else:
        return text
    return None


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
