# SPDX-License-Identifier: Apache-2.0
"""Service (Kubernetes, core/v1): an address for the workloads that a selector chooses."""

from __future__ import annotations

from ..kind import Kind
from ..names import read_dns_1035_label, read_labels
from ..node import Node
from ..services.external_access import (
    ACCESS_FIELDS,
    CLUSTER_IP,
    EXTERNAL_NAME,
    LOAD_BALANCER,
    read_external_access,
    read_type,
)
from ..services.external_name import refuse_addresses, refuse_missing_name
from ..services.ports import read_service_ports
from ..services.service_addresses import NONE, read_service_addresses
from ..services.session_affinity import NONE as NO_AFFINITY
from ..services.session_affinity import read_session_affinity

_POLICIES = ("Cluster", "Local")
_DISTRIBUTIONS = ("PreferClose", "PreferSameZone", "PreferSameNode")
_FIELDS = (
    "selector", "ports", "clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "sessionAffinity",
    "sessionAffinityConfig", "internalTrafficPolicy", "publishNotReadyAddresses", "externalName", "trafficDistribution",
    *ACCESS_FIELDS,
)  # fmt: skip


def _read_spec(node: Node) -> dict | None:
    if node.value is None:
        node.refuse("Required value", "add it with ports and selector")
        return None
    fields = node.mapping(_FIELDS)
    policy, unready = (fields.get(name) for name in ("internalTrafficPolicy", "publishNotReadyAddresses"))
    known = read_type(fields)
    # With a type that is none, whatever a type allows is allowed, so that all other mistakes are found with this one.
    kind = known or LOAD_BALANCER
    if distribution := fields.get("trafficDistribution"):
        # A preference, which OVN's load balancers do not know.
        distribution.choice(_DISTRIBUTIONS)
    is_alias = kind == EXTERNAL_NAME
    if is_alias:
        refuse_missing_name(fields)
        refuse_addresses(fields)
    addresses = read_service_addresses(fields, are_allowed=not is_alias)
    if addresses["clusterIPs"] == [NONE] and known not in (CLUSTER_IP, None):
        fields.place("clusterIP" if fields.get("clusterIP") else "clusterIPs").refuse(
            f"Invalid value: '{NONE}': may not be set to '{NONE}' for {kind} services", f"use the type {CLUSTER_IP}"
        )
    ports = read_service_ports(fields.get("ports"), has_node_ports=kind != CLUSTER_IP)
    if (
        not ports
        and addresses["clusterIPs"] != [NONE]
        and not is_alias
        and not (fields.get("ports") and fields.get("ports").value)
    ):
        fields.place("ports").refuse("Required value", "list the ports that clients use")
    selector = read_labels(fields.get("selector"))
    spec = {
        # One of the type ExternalName has no endpoints, whatever else it says.
        "selector": {} if is_alias else selector,
        "ports": [] if is_alias else ports,
        **addresses,
        **read_external_access(fields, kind),
        # Seconds for which a client stays with an endpoint, 0 for none.
        "affinity": read_session_affinity(fields, NO_AFFINITY),
        "internalTrafficPolicy": policy.choice(_POLICIES) if policy else _POLICIES[0],
        "publishNotReadyAddresses": unready.boolean() if unready else False,
    }
    return spec if known else None


KIND = Kind(
    name="Service",
    api_versions=("v1",),
    namespaced=True,
    # As kubectl has it.
    default_namespace="default",
    read_spec=_read_spec,
    read_name=read_dns_1035_label,
)
