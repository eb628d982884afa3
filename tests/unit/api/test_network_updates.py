# SPDX-License-Identifier: Apache-2.0
"""Messages about forbidden changes (the rules are in cases/updates.yml), and the capacity of a network."""

from __future__ import annotations

import ipaddress
import json

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.api import (
    Resource,
    check_update,
    host_subnet_capacity,
    read_manifests,
    usable_addresses,
)

RED = {"cidr": "10.0.0.0/16", "hostSubnet": 24}
BLUE = {"cidr": "10.1.0.0/16", "hostSubnet": 24}


def layer3(*subnets: dict) -> Resource:
    """A Layer3 network."""
    spec = {"topology": "Layer3", "layer3": {"role": "Primary", "subnets": list(subnets)}}
    metadata = {"name": "blue", "namespace": "red"}
    manifest = {"kind": "UserDefinedNetwork", "metadata": metadata, "spec": spec}
    ((resource,), _problems) = read_manifests([("a.json", json.dumps(manifest))])
    return resource


def test_the_problem_names_place_and_object() -> None:
    (problem,) = check_update(layer3(RED, BLUE), layer3(RED))
    assert str(problem) == (
        "a.json:1 (document 1, UserDefinedNetwork red/blue): spec: Removing existing subnets is not allowed:"
        " 10.1.0.0/16; restore the value, or delete the network first"
    )


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
