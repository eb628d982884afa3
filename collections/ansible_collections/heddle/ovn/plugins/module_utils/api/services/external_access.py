# SPDX-License-Identifier: Apache-2.0
"""The fields of a Service that is reached from beyond its network: node ports, external and load balancer addresses.

Rules and messages are those of a Kubernetes API server (core/v1, `ValidateService`). Which node ports and addresses are
free is checked at admission (`controllers/services/node_ports.py`, `controllers/services/load_balancer_addresses.py`).
"""

from __future__ import annotations

import ipaddress

from ..addresses import parse_address, parse_cidr
from ..names import read_qualified_name
from ..node import Fields, Node
from ..problem import show

CLUSTER_IP, NODE_PORT, LOAD_BALANCER, EXTERNAL_NAME = "ClusterIP", "NodePort", "LoadBalancer", "ExternalName"
CLUSTER, LOCAL = "Cluster", "Local"
_TYPES = (CLUSTER_IP, EXTERNAL_NAME, LOAD_BALANCER, NODE_PORT)
_ONLY_LOAD_BALANCER = "Forbidden: may only be used when `type` is 'LoadBalancer'"
_ONLY_EXTERNAL = "Invalid value: may only be set for externally-accessible services"
_ONLY_LOCAL = "Invalid value: may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
_OF_LOAD_BALANCERS = ("allocateLoadBalancerNodePorts", "loadBalancerClass", "loadBalancerSourceRanges")
# Other types may have `loadBalancerIP`, which has no effect there.
ACCESS_FIELDS = (
    "type", "externalIPs", "externalTrafficPolicy", "healthCheckNodePort", "loadBalancerIP", *_OF_LOAD_BALANCERS,
)  # fmt: skip
_LAST_PORT = 65535


def read_type(fields: Fields) -> str | None:
    """The field ``type``; None after a mistake."""
    node = fields.get("type")
    return node.choice(_TYPES) if node and node.value != "" else CLUSTER_IP


def read_external_access(fields: Fields, kind: str) -> dict:
    """All fields of ACCESS_FIELDS; those that do not apply have no value."""
    addresses = fields.get("externalIPs")
    external = [_external_ip(item) for item in addresses.sequence()] if addresses else []
    if kind == EXTERNAL_NAME:
        # As with kube-proxy, nothing leads to such a Service.
        external = []
    found = {
        "type": kind,
        "externalIPs": list(dict.fromkeys(address for address in external if address)),
        "externalTrafficPolicy": _traffic_policy(
            fields, is_external=kind in (NODE_PORT, LOAD_BALANCER) or bool(external)
        ),
        "allocateLoadBalancerNodePorts": True,
        "loadBalancerClass": None,
        "loadBalancerIP": None,
        "loadBalancerSourceRanges": [],
    }
    # Without a policy after a mistake, which is noted.
    is_local = kind == LOAD_BALANCER and found["externalTrafficPolicy"] in (LOCAL, None)
    if kind == LOAD_BALANCER:
        found |= _load_balancer(fields)
    else:
        for name in _OF_LOAD_BALANCERS:
            field = fields.get(name)
            # A list without items is none (`omitempty`); the other fields are pointers, which any value sets.
            if field and field.value != []:
                field.refuse(_ONLY_LOAD_BALANCER, "remove it")
    found["healthCheckNodePort"] = _health_check_port(fields.get("healthCheckNodePort"), is_local=is_local)
    return found


def _traffic_policy(fields: Fields, *, is_external: bool) -> str | None:
    node = fields.get("externalTrafficPolicy")
    if node is None or node.value == "":
        return CLUSTER if is_external else None
    if not is_external:
        node.refuse(_ONLY_EXTERNAL, "remove it")
        return None
    return node.choice((CLUSTER, LOCAL))


def _load_balancer(fields: Fields) -> dict:
    allocates, chosen, ranges = (
        fields.get(name) for name in ("allocateLoadBalancerNodePorts", "loadBalancerClass", "loadBalancerSourceRanges")
    )
    address = fields.get("loadBalancerIP")
    found = [_source_range(item) for item in ranges.sequence()] if ranges else []
    return {
        "allocateLoadBalancerNodePorts": allocates.boolean() if allocates else True,
        "loadBalancerClass": read_qualified_name(chosen) if chosen else None,
        # An address of no pool is reported, as with a load balancer that does not have it.
        "loadBalancerIP": _address(address) if address and address.value != "" else None,
        "loadBalancerSourceRanges": list(dict.fromkeys(text for text in found if text)),
    }


def _health_check_port(node: Node | None, *, is_local: bool) -> int:
    """The requested port, 0 for none."""
    if node is None or node.value == 0:
        return 0
    if not is_local:
        node.refuse(_ONLY_LOCAL, "remove it")
        return 0
    return node.integer(1, _LAST_PORT) or 0


def _address(node: Node) -> str | None:
    text = node.text()
    if text is None:
        return None
    address = parse_address(text)
    if address is None:
        node.refuse(f"Invalid value: {show(text)}: must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")
        return None
    return str(address)


def _external_ip(node: Node) -> str | None:
    """An address that hosts may have; `ValidateNonSpecialIP`."""
    text = _address(node)
    if text is None:
        return None
    address = ipaddress.ip_address(text)
    loopback, near = ("127.0.0.0/8, ::1/128", "169.254.0.0/16, fe80::/10")
    for is_special, rule in (
        (address.is_unspecified, "may not be unspecified (0.0.0.0 or ::)"),
        (address.is_loopback, f"may not be in the loopback range ({loopback})"),
        (address.is_link_local, f"may not be in the link-local range ({near})"),
        (_is_link_local_multicast(address), "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"),
    ):
        if is_special:
            node.refuse(f"Invalid value: {show(text)}: {rule}")
            return None
    return text


def _is_link_local_multicast(address) -> bool:
    # RFC 5771, section 4; RFC 4291, section 2.7: the scope is the second half of the second octet.
    if address.version == 4:
        return address in ipaddress.ip_network("224.0.0.0/24")
    return address.is_multicast and address.packed[1] & 0x0F == 2


def _source_range(node: Node) -> str | None:
    text = node.text()
    # As in Kubernetes, blanks around a range are ignored.
    parsed = parse_cidr(text.strip()) if text is not None else None
    if parsed is None:
        if text is not None:
            node.refuse(f"Invalid value: {show(text)}: must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)")
        return None
    return str(parsed[1])
