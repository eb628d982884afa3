# SPDX-License-Identifier: Apache-2.0
"""What may change in a network that exists, and how many hosts and workloads fit into it."""

from __future__ import annotations

import ipaddress
import json

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.model import (
    Resource,
    check_update,
    host_subnet_capacity,
    read_manifests,
    usable_addresses,
)

RED = {"cidr": "10.0.0.0/16", "hostSubnet": 24}
BLUE = {"cidr": "10.1.0.0/16", "hostSubnet": 24}


def network(selector: dict | None = None, **fields) -> Resource:
    """A ClusterUserDefinedNetwork."""
    manifest = {
        "kind": "ClusterUserDefinedNetwork",
        "metadata": {"name": "blue"},
        "spec": {"namespaceSelector": selector or {}, "network": fields},
    }
    ((resource,), _problems) = read_manifests([("a.json", json.dumps(manifest))])
    return resource


def layer2(**fields) -> Resource:
    """A Layer2 network."""
    return network(topology="Layer2", layer2={"role": "Primary", "subnets": ["10.0.0.0/24"], **fields})


def layer3(*subnets: dict, role: str = "Primary", **fields) -> Resource:
    """A Layer3 network."""
    return network(topology="Layer3", layer3={"role": role, "subnets": list(subnets), **fields})


@pytest.mark.parametrize(
    ("stored", "wanted"),
    [
        (layer2(), layer2()),
        (layer2(), network(topology="Layer2", role="Primary", subnets=["10.0.0.0/24"])),
        (layer3(RED), layer3(RED, BLUE)),
        (layer3(RED, BLUE), layer3(BLUE, RED)),
        (
            network({}, topology="Layer2", role="Primary", subnets=["10.0.0.0/24"]),
            network({"matchLabels": {"a": "b"}}, topology="Layer2", role="Primary", subnets=["10.0.0.0/24"]),
        ),
    ],
)
def test_allowed(stored: Resource, wanted: Resource) -> None:
    assert check_update(stored, wanted) == []


@pytest.mark.parametrize(
    ("stored", "wanted", "rule"),
    [
        (layer2(), layer3(RED), "Topology is immutable: it is Layer2, not Layer3"),
        (layer2(), layer2(subnets=["10.0.1.0/24"], mtu=1400), "Layer2 is immutable: mtu, subnets changed"),
        (layer3(RED), layer3(RED, role="Secondary"), "role is immutable: it is Primary, not Secondary"),
        (layer3(RED), layer3(RED, mtu=1300), "mtu is immutable: it is None, not 1300"),
        (
            layer3(RED),
            layer3(RED, joinSubnets=["100.66.0.0/16"]),
            "joinSubnets is immutable: it is [], not ['100.66.0.0/16']",
        ),
        (layer3(RED, BLUE), layer3(RED), "Removing existing subnets is not allowed: 10.1.0.0/16"),
        (layer3(RED), layer3({**RED, "hostSubnet": 25}), "hostSubnet is immutable: 10.0.0.0/16 has 24, not 25"),
        (
            layer3(RED, role="Secondary"),
            layer3(RED, {"cidr": "fd00::/48"}, role="Secondary"),
            "subnets is immutable for Secondary networks",
        ),
    ],
)
def test_refused(stored: Resource, wanted: Resource, rule: str) -> None:
    (problem,) = check_update(stored, wanted)
    assert problem.rule == rule
    assert str(problem).startswith("a.json:1 (document 1, ClusterUserDefinedNetwork blue): spec: ")


def test_other_kinds_may_change() -> None:
    text = "{apiVersion: heddle.dev/v1, kind: Workload, metadata: {name: a, namespace: b}, spec: {node: %s}}"
    ((stored,), _problems) = read_manifests([("a.yml", text % "node1")])
    ((wanted,), _problems) = read_manifests([("a.yml", text % "node2")])
    assert check_update(stored, wanted) == []


@pytest.mark.parametrize(
    ("subnets", "capacity"),
    [
        ([RED], {4: 256}),
        ([{"cidr": "10.0.0.0/16"}], {4: 256}),
        ([RED, BLUE, {"cidr": "fd00::/56"}], {4: 512, 6: 256}),
        ([{"cidr": "10.0.0.0/23", "hostSubnet": 24}], {4: 2}),
    ],
)
def test_host_subnet_capacity(subnets: list, capacity: dict) -> None:
    assert host_subnet_capacity(layer3(*subnets).spec) == capacity


@pytest.mark.parametrize(
    ("subnet", "excluded", "usable"),
    [
        ("10.0.0.0/24", [], 254),
        ("10.0.0.0/29", [], 6),
        ("10.0.0.0/31", [], 0),
        ("10.0.0.0/32", [], 0),
        ("fd00::/125", [], 7),
        ("fd00::/128", [], 0),
        ("10.0.0.0/24", ["10.0.0.0/26"], 191),
        ("10.0.0.0/24", ["10.0.0.0/26", "10.0.0.0/27", "fd00::/64"], 191),
        ("10.0.0.0/24", ["10.0.0.192/26"], 191),
        ("10.0.0.0/24", ["10.0.0.0/8"], 0),
        ("10.0.0.0/24", ["10.0.1.0/24"], 254),
    ],
)
def test_usable_addresses(subnet: str, excluded: list, usable: int) -> None:
    networks = [ipaddress.ip_network(text) for text in excluded]
    assert usable_addresses(ipaddress.ip_network(subnet), networks) == usable
