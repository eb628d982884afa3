# SPDX-License-Identifier: Apache-2.0
"""The normal form of all forms of a network."""

from __future__ import annotations

import json

from ansible_collections.heddle.ovn.plugins.module_utils.api import read_manifests

LEAST = {
    "mtu": None,
    "joinSubnets": [],
    "excludeSubnets": [],
    "reservedSubnets": [],
    "infrastructureSubnets": [],
    "defaultGatewayIPs": [],
    "physicalNetworkName": None,
    "vlan": None,
    "ipam": {"mode": "Enabled", "lifecycle": None},
    "transport": None,
    "noOverlay": None,
    "evpn": None,
    "uplinks": [],
    "namespaceSelector": {"matchLabels": {}, "matchExpressions": []},
}


def spec_of(**spec) -> dict:
    """The normal form of a ClusterUserDefinedNetwork."""
    manifest = {"kind": "ClusterUserDefinedNetwork", "metadata": {"name": "blue"}, "spec": spec}
    ((resource,), problems) = read_manifests([("network.json", json.dumps(manifest))])
    assert problems == []
    return resource.spec


def test_all_fields_of_layer2() -> None:
    layer2 = {
        "role": "Primary",
        "mtu": 1400,
        "subnets": ["10.0.0.0/24"],
        "joinSubnets": ["100.66.0.0/16"],
        "reservedSubnets": ["10.0.0.16/28"],
        "infrastructureSubnets": ["10.0.0.0/28"],
        "defaultGatewayIPs": ["10.0.0.1"],
        "ipam": {"lifecycle": "Persistent"},
    }
    evpn = {"vtep": "evpn", "macVRF": {"vni": 7, "routeTarget": "65000:7"}}
    network = {"topology": "Layer2", "layer2": layer2, "transport": "EVPN", "evpn": evpn}
    assert spec_of(namespaceSelector={}, network=network) == {
        **LEAST,
        **layer2,
        "topology": "Layer2",
        "subnets": [{"cidr": "10.0.0.0/24", "hostSubnet": None}],
        "ipam": {"mode": "Enabled", "lifecycle": "Persistent"},
        "transport": "EVPN",
        "evpn": {**evpn, "ipVRF": None},
    }


def test_all_fields_of_layer3() -> None:
    layer3 = {
        "role": "Primary",
        "mtu": 1400.0,
        "subnets": [{"cidr": "10.0.0.0/16", "hostSubnet": 24}, {"cidr": "fd00::/48", "hostSubnet": None}],
        "joinSubnets": ["100.66.0.0/16"],
    }
    no_overlay = {"outboundSNAT": "Enabled", "routing": "Managed"}
    network = {"topology": "Layer3", "layer3": layer3, "transport": "NoOverlay", "noOverlay": no_overlay}
    assert spec_of(namespaceSelector={}, network=network, uplinks=["fast"]) == {
        **LEAST,
        **layer3,
        "topology": "Layer3",
        "transport": "NoOverlay",
        "noOverlay": no_overlay,
        "uplinks": ["fast"],
    }


def test_all_fields_of_localnet() -> None:
    localnet = {
        "role": "Secondary",
        "mtu": 1500,
        "physicalNetworkName": "tenants",
        "subnets": ["10.0.0.0/24"],
        "excludeSubnets": ["10.0.0.9/28"],
        "vlan": {"mode": "Access", "access": {"id": 7}},
    }
    assert spec_of(namespaceSelector={}, network={"topology": "Localnet", "localnet": localnet}) == {
        **LEAST,
        **localnet,
        "topology": "Localnet",
        "subnets": [{"cidr": "10.0.0.0/24", "hostSubnet": None}],
        "excludeSubnets": ["10.0.0.0/28"],
        "vlan": 7,
    }


def test_cidrs_and_addresses_are_canonical() -> None:
    layer2 = {
        "role": "Primary",
        "subnets": ["FD00:0:0::5/64"],
        "joinSubnets": ["FD99:0000::/64"],
        "defaultGatewayIPs": ["FD00::0001"],
    }
    spec = spec_of(namespaceSelector={}, network={"topology": "Layer2", "layer2": layer2})
    assert spec["subnets"] == [{"cidr": "fd00::/64", "hostSubnet": None}]
    assert (spec["joinSubnets"], spec["defaultGatewayIPs"]) == (["fd99::/64"], ["fd00::1"])
    assert (
        type(spec_of(namespaceSelector={}, network={"topology": "Layer2", "layer2": {**layer2, "mtu": 1400.0}})["mtu"])
        is int
    )
