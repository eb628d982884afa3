# SPDX-License-Identifier: Apache-2.0
"""Service (Kubernetes, core/v1): an address of the cluster for the workloads that a selector chooses."""

from __future__ import annotations

from ..kind import Kind
from ..names import read_dns_1035_label, read_labels
from ..node import Node
from ..ports import read_service_ports
from ..service_addresses import NONE, read_service_addresses
from ..session_affinity import NONE as NO_AFFINITY
from ..session_affinity import read_session_affinity

_CLUSTER_IP = "ClusterIP"
_TYPES = (_CLUSTER_IP, "ExternalName", "LoadBalancer", "NodePort")
_POLICIES = ("Cluster", "Local")
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
        "affinity": read_session_affinity(fields, NO_AFFINITY),
        "internalTrafficPolicy": policy.choice(_POLICIES) if policy else _POLICIES[0],
        "publishNotReadyAddresses": unready.boolean() if unready else False,
    }


KIND = Kind(
    name="Service",
    api_versions=("v1",),
    namespaced=True,
    # As kubectl has it.
    default_namespace="default",
    read_spec=_read_spec,
    read_name=read_dns_1035_label,
)
