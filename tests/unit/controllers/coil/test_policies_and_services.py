# SPDX-License-Identifier: Apache-2.0
"""Policies and Services of namespaces with an address pool: they have no effect there, and their status says so."""

from __future__ import annotations

import json

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.controllers.conditions import condition
from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from tests.pipeline import layer2, namespace, stored, with_gateways, workload

POOL = (
    "---\napiVersion: coil.cybozu.com/v2\nkind: AddressPool\nmetadata: {name: routed}\n"
    "spec: {subnets: [{ipv4: 10.2.0.0/24}]}\n"
)
BASE = (
    POOL
    + namespace("a", primary=False).rstrip() + "\n  annotations: {coil.cybozu.com/pool: routed}\n"
    + workload("a", "w", "node1").replace("namespace: a}", "namespace: a, labels: {app: web}}")
    + namespace("red") + layer2("red", "net", "10.0.0.0/24") + workload("red", "w", "node1")
)  # fmt: skip
OBJECTS = {
    "NetworkPolicy/a/p": ("networking.k8s.io/v1", {"podSelector": {}}),
    "EgressFirewall/a/default": (
        "k8s.ovn.org/v1", {"egress": [{"type": "Deny", "to": {"cidrSelector": "0.0.0.0/0"}}]}
    ),
    "EgressQoS/a/default": ("k8s.ovn.org/v1", {"egress": [{"dscp": 30}]}),
    "Service/a/web": ("v1", {"selector": {"app": "web"}, "ports": [{"port": 80}]}),
}  # fmt: skip


def manifest(key: str, version: str, spec: dict) -> str:
    kind, *where, name = key.split("/")
    metadata = {"name": name, **({"namespace": where[0]} if where else {})}
    return f"---\n{json.dumps({'apiVersion': version, 'kind': kind, 'metadata': metadata, 'spec': spec})}\n"


@pytest.mark.parametrize("key", OBJECTS)
def test_what_needs_ovn_is_reported(key):
    after = stored(BASE + manifest(key, *OBJECTS[key]), hosts=with_gateways("shared"))
    found = condition(after.objects[key], "Ready" if key.startswith("Service") else "Accepted")
    assert (found["status"], found["reason"]) == ("False", "NetworkNotSupported"), found
    assert "namespace a has its addresses of pool routed" in found["message"]
    plan = build_plan(after)
    assert (plan["policies"], plan["egress_firewalls"], plan["egress_qos"]) == ({}, {}, [])


def test_service_of_a_handwritten_slice_has_endpoints():
    """They are addresses of any host, and clients are workloads on the default network."""
    service = manifest("Service/a/web", "v1", {"ports": [{"port": 80}]})
    endpoints = {
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4", "ports": [{"port": 80}],
        "metadata": {"name": "web-1", "namespace": "a", "labels": {"kubernetes.io/service-name": "web"}},
        "endpoints": [{"addresses": ["198.51.100.7"]}],
    }  # fmt: skip
    after = stored(f"{BASE}{service}---\n{json.dumps(endpoints)}\n", hosts=with_gateways("shared"))
    assert condition(after.objects["Service/a/web"], "Ready")["reason"] == "EndpointsReady"


def test_policy_of_the_cluster_names_the_pool():
    spec = {"priority": 1, "subject": {"namespaces": {}}, "ingress": [{"action": "Deny", "from": [{"namespaces": {}}]}]}
    text = manifest("AdminNetworkPolicy/all", "policy.networking.k8s.io/v1alpha1", spec)
    entry = stored(BASE + text).objects["AdminNetworkPolicy/all"]
    assert condition(entry, "Accepted")["message"] == "in effect for 1 workload on 1 primary network"
    found = condition(entry, "PartialFailure")
    assert found["reason"] == "NetworkNotSupported"
    assert found["message"] == "no effect on pool routed: policies apply to networks of OVN only"
