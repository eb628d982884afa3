# SPDX-License-Identifier: Apache-2.0
"""The manifests of the inventories are valid and have what the lab needs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.api import Resource, matches, read_manifests

INVENTORIES = Path(__file__).parents[3] / "inventories"
PRIMARY_LABEL = "k8s.ovn.org/primary-user-defined-network"


def read_inventory(name: str) -> list[Resource]:
    """All resources of an inventory."""
    directory = INVENTORIES / name / "manifests"
    resources, problems = read_manifests([(path.name, path.read_text()) for path in sorted(directory.rglob("*.yml"))])
    assert problems == []
    return resources


@pytest.mark.parametrize("inventory", ["lab", "example"])
def test_every_namespace_exists_and_is_labelled_when_it_has_a_primary_network(inventory: str) -> None:
    resources = read_inventory(inventory)
    namespaces = {resource.name: resource for resource in resources if resource.kind == "Namespace"}
    assert {resource.namespace for resource in resources} - {None} == set(namespaces)
    primary = Counter()
    for resource in resources:
        if resource.spec.get("role") != "Primary":
            continue
        if resource.kind == "UserDefinedNetwork":
            primary[resource.namespace] += 1
        if resource.kind == "ClusterUserDefinedNetwork":
            selector = resource.spec["namespaceSelector"]
            primary.update(name for name, namespace in namespaces.items() if matches(selector, namespace.labels))
    assert primary == Counter(name for name, namespace in namespaces.items() if PRIMARY_LABEL in namespace.labels)


def test_lab_workloads() -> None:
    workloads = [resource for resource in read_inventory("lab") if resource.kind == "Workload"]
    counts = Counter(workload.namespace for workload in workloads)
    for name, count in {
        "demo": 2,
        "mynamespace": 1,
        "theirnamespace": 2,
        "test12": 3,
        "red": 3,
        "blue-a": 1,
        "blue-b": 1,
        "plain": 3,
    }.items():
        assert counts[name] == count, name
    assert {workload.spec["node"] for workload in workloads} == {"node1", "node2", "node3"}


def test_lab_networks_share_a_subnet() -> None:
    """Primary networks of different tenants have the same addresses."""
    networks = [resource for resource in read_inventory("lab") if resource.spec.get("role") == "Primary"]
    subnets = Counter(subnet["cidr"] for network in networks for subnet in network.spec["subnets"])
    assert subnets["10.0.0.0/24"] >= 3
    # OKEP-5094's own network and a dual-stack Layer3 one.
    assert {"203.203.0.0/16", "2010:100:200::/60", "10.128.0.0/16", "fd00:10:128::/48"} <= set(subnets)
