# SPDX-License-Identifier: Apache-2.0
"""Service (Kubernetes, core/v1): an address of the cluster for the workloads that a selector chooses."""

from __future__ import annotations

from ..kind import Kind
from ..names import read_dns_1035_label, read_labels
from ..node import Fields, Node
from ..ports import read_service_ports
from ..service_addresses import NONE, read_service_addresses

_CLUSTER_IP = "ClusterIP"
_TYPES = (_CLUSTER_IP, "ExternalName", "LoadBalancer", "NodePort")
_CLIENT_IP = "ClientIP"
_POLICIES = ("Cluster", "Local")
# Seconds.
_DEFAULT_TIMEOUT, _LONGEST_TIMEOUT = 10800, 86400
_NOT_YET = "accepted by the API, not supported by Heddle yet"
_ONLY_LOAD_BALANCER = "Forbidden: may only be used when `type` is 'LoadBalancer'"
_FORBIDDEN = {
    "allocateLoadBalancerNodePorts": _ONLY_LOAD_BALANCER,
    "externalIPs": _NOT_YET,
    "externalName": _NOT_YET,
    "externalTrafficPolicy": "Invalid value: may only be set for externally-accessible services",
    "healthCheckNodePort":
        "Invalid value: may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'",
    "loadBalancerClass": _ONLY_LOAD_BALANCER,
    "loadBalancerIP": _NOT_YET,
    "loadBalancerSourceRanges": _ONLY_LOAD_BALANCER,
    "trafficDistribution": _NOT_YET,
}  # fmt: skip
_FIELDS = (
    "type", "selector", "ports", "clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "sessionAffinity",
    "sessionAffinityConfig", "internalTrafficPolicy", "publishNotReadyAddresses", *_FORBIDDEN,
)  # fmt: skip


def _read_spec(node: Node) -> dict | None:
    if node.value is None:
        node.refuse("Required value", "add it with ports and selector")
        return None
    fields = node.mapping(_FIELDS)
    kind, policy, unready = (fields.get(name) for name in ("type", "internalTrafficPolicy", "publishNotReadyAddresses"))
    written = kind.choice(_TYPES) if kind else _CLUSTER_IP
    if written not in (_CLUSTER_IP, None):
        kind.refuse(f"{written} is {_NOT_YET}", f"use {_CLUSTER_IP}")
        return None
    for name, rule in _FORBIDDEN.items():
        field = fields.get(name)
        if field and field.value not in ([], "", 0, False):
            field.refuse(rule, "remove it")
    addresses = read_service_addresses(fields)
    ports = read_service_ports(fields.get("ports"))
    if not ports and addresses["clusterIPs"] != [NONE] and not (fields.get("ports") and fields.get("ports").value):
        fields.place("ports").refuse("Required value", "list the ports that clients use")
    return {
        "type": _CLUSTER_IP,
        "selector": read_labels(fields.get("selector")),
        "ports": ports,
        **addresses,
        # Seconds for which a client stays with an endpoint, 0 for none.
        "affinity": _affinity(fields),
        "internalTrafficPolicy": policy.choice(_POLICIES) if policy else _POLICIES[0],
        "publishNotReadyAddresses": unready.boolean() if unready else False,
    }


def _affinity(fields: Fields) -> int:
    field, config = fields.get("sessionAffinity"), fields.get("sessionAffinityConfig")
    chosen = field.choice((_CLIENT_IP, "None")) if field else "None"
    if chosen != _CLIENT_IP:
        if config and chosen:
            config.refuse("Forbidden: must not be set when session affinity is None", "set sessionAffinity to ClientIP")
        return 0
    client = config.mapping(("clientIP",)).get("clientIP") if config else None
    timeout = client.mapping(("timeoutSeconds",)).get("timeoutSeconds") if client else None
    if timeout is None:
        return _DEFAULT_TIMEOUT
    value = timeout.value
    if isinstance(value, int) and not isinstance(value, bool) and not 0 < value <= _LONGEST_TIMEOUT:
        timeout.refuse(f"Invalid value: {value}: must be greater than 0 and less than {_LONGEST_TIMEOUT}")
        return 0
    return timeout.integer(1, _LONGEST_TIMEOUT) or 0


KIND = Kind(
    name="Service",
    api_versions=("v1",),
    namespaced=True,
    # As kubectl has it.
    default_namespace="default",
    read_spec=_read_spec,
    read_name=read_dns_1035_label,
)
