# SPDX-License-Identifier: Apache-2.0
"""Fields that the API server accepts and admission refuses, with a message that distinguishes the two."""

from __future__ import annotations

import json

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.api import read_manifests, unsupported

LAYER2 = {"role": "Primary", "subnets": ["10.0.0.0/24"]}
LAYER3 = {"role": "Primary", "subnets": [{"cidr": "10.0.0.0/16"}]}


def refusals(spec: dict) -> list[tuple[str, str, str]]:
    """Path, rule and remedy of what admission refuses of a valid ClusterUserDefinedNetwork."""
    manifest = {"kind": "ClusterUserDefinedNetwork", "metadata": {"name": "blue"}, "spec": spec}
    ((resource,), problems) = read_manifests([("network.json", json.dumps(manifest))])
    assert problems == []
    return list(unsupported(resource.spec))


def refused(spec: dict) -> list[str]:
    """Path and rule of what admission refuses."""
    return [f"{path}: {rule}" for path, rule, _remedy in refusals(spec)]


def layer2(**fields) -> dict:
    """A Layer2 network of the flat form."""
    return {"namespaceSelector": {}, "template": {"topology": "Layer2", **LAYER2, **fields}}


def gateways(*addresses: str) -> dict:
    """A Layer2 network whose gateways were chosen."""
    subnets = ["10.0.0.0/24", "fd00::/64"][: len(addresses)]
    layer2 = {"role": "Primary", "subnets": subnets, "defaultGatewayIPs": list(addresses)}
    return {"namespaceSelector": {}, "network": {"topology": "Layer2", "layer2": layer2}}


def layer3(*subnets: dict, role: str = "Primary") -> dict:
    """A Layer3 network."""
    network = {"topology": "Layer3", "layer3": {"role": role, "subnets": list(subnets)}}
    return {"namespaceSelector": {}, "network": network}


@pytest.mark.parametrize(
    "spec",
    [
        layer2(),
        layer2(subnets=["10.0.0.0/29", "fd00::/125"]),
        layer2(role="Secondary", subnets=["10.0.0.0/31"]),
        layer2(excludeSubnets=["10.0.0.0/26"]),
        layer2(subnets=["10.0.0.0/28"], excludeSubnets=["10.0.0.8/29", "10.0.0.6/31"]),
        gateways("10.0.0.254", "fd00::ffff:ffff:ffff:ffff"),
        layer3({"cidr": "10.0.0.0/23"}, {"cidr": "fd00::/63"}),
        layer3({"cidr": "10.0.0.0/16", "hostSubnet": 29}, {"cidr": "fd00::/48", "hostSubnet": 64}),
        layer3({"cidr": "10.0.0.0/16", "hostSubnet": 31}, role="Secondary"),
    ],
)
def test_supported_fields(spec: dict) -> None:
    assert refused(spec) == []


@pytest.mark.parametrize(
    ("spec", "fragments"),
    [
        (
            {
                "namespaceSelector": {},
                "uplinks": ["fast"],
                "network": {
                    "topology": "Layer3",
                    "layer3": LAYER3,
                    "transport": "NoOverlay",
                    "noOverlay": {"outboundSNAT": "Enabled", "routing": "Managed"},
                },
            },
            [
                f"spec.{name}: accepted by the API, not supported by Heddle yet"
                for name in ("transport", "noOverlay", "uplinks")
            ],
        ),
        (
            {
                "namespaceSelector": {},
                "network": {
                    "topology": "Layer2",
                    "layer2": LAYER2,
                    "transport": "EVPN",
                    "evpn": {"vtep": "evpn", "macVRF": {"vni": 7}},
                },
            },
            [f"spec.{name}: accepted by the API, not supported by Heddle yet" for name in ("transport", "evpn")],
        ),
        (layer2(subnets=["10.0.0.0/30"]), ["too small for its hosts, it has 2 usable addresses"]),
        (layer2(subnets=["fd00::/126"]), ["too small for its hosts, it has 3 usable addresses"]),
        (
            layer2(subnets=["10.0.0.0/28"], excludeSubnets=["10.0.0.8/29", "10.0.0.4/30"]),
            ["too small for its hosts, it has 3 usable addresses"],
        ),
        (layer2(excludeSubnets=["10.0.1.0/26"]), ["excludeSubnets must be in range of at least one subnet"]),
        (gateways("10.0.0.255"), ["defaultGatewayIPs: 10.0.0.255 is the broadcast address of 10.0.0.0/24"]),
        (layer3({"cidr": "10.0.0.0/24"}), ["the default /24 is not within 10.0.0.0/24"]),
        (layer3({"cidr": "fd00::/64"}), ["the default /64 is not within fd00::/64"]),
        (layer3({"cidr": "fd00::/48", "hostSubnet": 72}), ["hostSubnet must be 64 for an IPv6 CIDR, got 72"]),
        (layer3({"cidr": "10.0.0.0/16", "hostSubnet": 30}), ["it leaves no address for workloads"]),
    ],
)
def test_refused_by_admission(spec: dict, fragments: list[str]) -> None:
    found = refused(spec)
    assert len(found) == len(fragments), found
    assert all(any(fragment in text for text in found) for fragment in fragments), found


@pytest.mark.parametrize(
    ("cidr", "remedy"),
    [("10.0.0.0/24", "write a hostSubnet above 24, or a wider CIDR"), ("fd00::/64", "write a wider CIDR")],
)
def test_remedy_is_accepted(cidr: str, remedy: str) -> None:
    """Every host has an IPv6 /64, so a longer hostSubnet would be refused as well."""
    assert [reported for _path, _rule, reported in refusals(layer3({"cidr": cidr}))] == [remedy]
