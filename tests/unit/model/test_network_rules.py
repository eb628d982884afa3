# SPDX-License-Identifier: Apache-2.0
"""Rules of one network, at their boundaries: what is just allowed, what is just refused.

tests/golden/errors has the exact messages; here only the fragment that names the rule is compared.
"""

from __future__ import annotations

import json

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.model import read_manifests

LAYER2 = {"role": "Primary", "subnets": ["10.0.0.0/24"]}
DUAL_STACK = {"role": "Primary", "subnets": ["10.0.0.0/24", "fd00::/64"]}
SECONDARY = {"role": "Secondary", "subnets": ["10.0.0.0/24"]}
LAYER3 = {"role": "Primary", "subnets": [{"cidr": "10.0.0.0/16"}]}
LOCALNET = {"role": "Secondary", "physicalNetworkName": "tenants", "subnets": ["10.0.0.0/24"]}


def read(network: dict) -> tuple[dict | None, list[str]]:
    """The normalised spec of a network of a ClusterUserDefinedNetwork, and the messages."""
    manifest = {
        "apiVersion": "k8s.ovn.org/v1",
        "kind": "ClusterUserDefinedNetwork",
        "metadata": {"name": "blue"},
        "spec": {"namespaceSelector": {}, "network": network},
    }
    resources, problems = read_manifests([("network.json", json.dumps(manifest))])
    assert bool(resources) != bool(problems)
    return (resources[0].spec if resources else None), [str(problem) for problem in problems]


def layer2(base: dict = LAYER2, **fields) -> dict:
    """A Layer2 network; a field that is None is left out."""
    return {"topology": "Layer2", "layer2": {**base, **fields}}


def layer3(*subnets: str, role: str = "Primary", **fields) -> dict:
    """A Layer3 network; a subnet is written ``CIDR`` or ``CIDR hostSubnet``."""
    entries = []
    for subnet in subnets:
        cidr, _space, host_subnet = subnet.partition(" ")
        entries.append({"cidr": cidr, "hostSubnet": int(host_subnet)} if host_subnet else {"cidr": cidr})
    return {"topology": "Layer3", "layer3": {"role": role, "subnets": entries, **fields}}


def localnet(**fields) -> dict:
    """A Localnet network."""
    return {"topology": "Localnet", "localnet": {**LOCALNET, **fields}}


ALLOWED = {
    "mtu least": layer2(mtu=576),
    "mtu largest": layer2(mtu=65536),
    "mtu least with IPv6": layer2(DUAL_STACK, mtu=1280),
    "IPv6 only": layer2(subnets=["fd00::/64"]),
    "IPv6 before IPv4": layer2(subnets=["fd00::/64", "10.0.0.0/24"]),
    "smallest IPv4 subnet": layer2(subnets=["10.0.0.0/29"]),
    "smallest IPv6 subnet": layer2(subnets=["fd00::/125"]),
    "small secondary subnet": layer2(SECONDARY, subnets=["10.0.0.0/31"]),
    "layer2 without addresses": layer2(SECONDARY, subnets=None, ipam={"mode": "Disabled"}),
    "ipam enabled persistent": layer2(ipam={"mode": "Enabled", "lifecycle": "Persistent"}),
    "join subnet of one family": layer2(DUAL_STACK, joinSubnets=["100.66.0.0/16"]),
    "join subnets of both families": layer2(DUAL_STACK, joinSubnets=["fd98:1::/64", "100.66.0.0/16"]),
    "gateways of both families": layer2(DUAL_STACK, defaultGatewayIPs=["10.0.0.254", "fd00::fe"]),
    "gateway in infrastructure": layer2(infrastructureSubnets=["10.0.0.0/28"], defaultGatewayIPs=["10.0.0.15"]),
    "adjacent parts": layer2(reservedSubnets=["10.0.0.16/28"], infrastructureSubnets=["10.0.0.0/28"]),
    "most reserved subnets": layer2(reservedSubnets=[f"10.0.0.{4 * i}/30" for i in range(25)]),
    "host subnet one longer": layer3("10.0.0.0/16 17"),
    "host subnet smallest": layer3("10.0.0.0/16 29"),
    "host subnet default": layer3("10.0.0.0/23", "fd00::/63"),
    "host subnet smallest secondary": layer3("10.0.0.0/16 31", role="Secondary"),
    "many layer3 subnets": layer3(*(f"10.{i}.0.0/16" for i in range(256)), *(f"11.{i}.0.0/16" for i in range(144))),
    "adjacent layer3 subnets": layer3("10.0.0.0/17", "10.0.128.0/17"),
    "secondary dual-stack": layer3("10.0.0.0/16", "fd00::/48", role="Secondary"),
    "localnet": localnet(),
    "localnet with vlan": localnet(vlan={"mode": "Access", "access": {"id": 4094}}),
    "localnet excluding": localnet(excludeSubnets=["10.0.0.0/28"]),
    "localnet without addresses": localnet(subnets=None, ipam={"mode": "Disabled"}),
    "localnet longest name": localnet(physicalNetworkName="x" * 253),
}

REFUSED = [
    (layer2(mtu=575), "from 576 to 65536"),
    (layer2(mtu=65537), "from 576 to 65536"),
    (layer2(mtu=True), "expected an integer"),
    (layer2(mtu=1400.5), "expected an integer"),
    (layer2(DUAL_STACK, mtu=1279), "greater than or equal to 1280"),
    (layer3("10.0.0.0/16", "fd00::/48", mtu=1279), "greater than or equal to 1280"),
    (localnet(subnets=["fd00::/64"], mtu=1279), "greater than or equal to 1280"),
    (layer2(role=None), "is required"),
    (layer2(role="Tertiary"), "must be Primary or Secondary"),
    (layer2(subnets=["10.0.0.0/30"]), "too small for its hosts"),
    (layer2(subnets=["fd00::/126"]), "too small for its hosts"),
    (layer2(subnets=["10.0.0.0/24", "10.0.1.0/24"]), "different IP families"),
    (layer2(subnets=["10.0.0.1/24"]), "host bits are set"),
    (layer2(subnets=[10]), "expected text"),
    (layer2(subnets=[{"cidr": "10.0.0.0/24"}]), "expected text"),
    (layer2(subnets={"cidr": "10.0.0.0/24"}), "expected a list"),
    (layer2(subnets=None), "Subnets is required"),
    (layer2(ipam={"mode": "Disabled"}), "Disabled ipam.mode"),
    (layer2(SECONDARY, ipam={"mode": "Disabled"}), "must be unset"),
    (layer2(SECONDARY, subnets=None, ipam={"mode": "Disabled", "lifecycle": "Persistent"}), "lifecycle Persistent"),
    (layer2(ipam={}), "at least one of"),
    (layer2(SECONDARY, joinSubnets=["100.65.0.0/16"]), "only supported for Primary network"),
    (layer2(SECONDARY, defaultGatewayIPs=["10.0.0.1"]), "only supported for Primary network"),
    (layer2(SECONDARY, reservedSubnets=["10.0.0.0/28"]), "only supported for Primary network"),
    (layer2(SECONDARY, infrastructureSubnets=["10.0.0.0/28"]), "only supported for Primary network"),
    (layer2(joinSubnets=[]), "must have 1 to 2 entries"),
    (layer2(joinSubnets=["100.65.0.0/16", "100.66.0.0/16"]), "different IP families"),
    (layer2(joinSubnets=["10.0.0.0/30"]), "join subnet 10.0.0.0/30 overlaps"),
    (layer2(defaultGatewayIPs=["10.0.1.0"]), "must belong to one of"),
    (layer2(DUAL_STACK, defaultGatewayIPs=["10.0.0.1"]), "all IP families"),
    (layer2(infrastructureSubnets=["10.0.0.0/28"], defaultGatewayIPs=["10.0.0.16"]), "belong to infrastructureSubnets"),
    (layer2(defaultGatewayIPs=["10.0.0.1", "10.0.0.2"]), "different IP families"),
    (layer2(defaultGatewayIPs=["10.0.0"]), "IP is invalid"),
    (layer2(reservedSubnets=["10.0.0.0/23"]), "must be subnetworks"),
    (layer2(infrastructureSubnets=["fd00::/120"]), "must be subnetworks"),
    (layer2(reservedSubnets=["10.0.0.1/28"]), "masked network address"),
    (layer2(reservedSubnets=["10.0.0.0/28", "10.0.0.8/29"]), "must not overlap"),
    (layer2(reservedSubnets=[f"10.0.0.{4 * i}/30" for i in range(26)]), "must have 1 to 25 entries"),
    (layer2(infrastructureSubnets=[f"10.0.0.{4 * i}/30" for i in range(5)]), "must have 1 to 4 entries"),
    (layer2(excludeSubnets=["10.0.0.0/28"]), "unknown field"),
    (layer3(), "Subnets is required"),
    (layer3("10.0.0.0/16 16"), "smaller than CIDR"),
    (layer3("10.0.0.0/24"), "smaller than CIDR"),
    (layer3("fd00::/64"), "smaller than CIDR"),
    (layer3("10.0.0.0/16 32"), "must < 32"),
    (layer3("10.0.0.0/16 30"), "too small for its hosts"),
    (layer3("10.0.0.0/16 128"), "from 1 to 127"),
    (layer3("fd00::/48 65"), "must be 64"),
    (layer3("10.0.0.0/16", "10.0.0.0/16"), "same CIDR"),
    (layer3("10.0.0.0/17", "10.0.0.0/16"), "overlap or contain"),
    (layer3("10.0.0.0/16 24", "10.1.0.0/16"), "same hostSubnet value"),
    (layer3("10.0.0.0/16", "10.1.0.0/16", role="Secondary"), "different IP families"),
    (layer3("10.0.0.0/16", "10.1.0.0/16", "fd00::/48", role="Secondary"), "at most 2 subnets"),
    (layer3("10.0.0.0/16", role="Secondary", joinSubnets=["100.65.0.0/16"]), "only supported for Primary network"),
    (layer3(*(f"10.{i // 256}.{i % 256}.0/24 25" for i in range(401))), "at most 400 entries"),
    ({"topology": "Layer3", "layer3": {"role": "Primary", "subnets": [{"hostSubnet": 24}]}}, "is required"),
    (localnet(role="Primary"), "not supported for primary network"),
    (localnet(physicalNetworkName=None), "is required"),
    (localnet(physicalNetworkName="a,b"), "cannot contain"),
    (localnet(physicalNetworkName=""), "1 to 253 characters"),
    (localnet(physicalNetworkName="x" * 254), "1 to 253 characters"),
    (localnet(subnets=None), "required with ipam.mode"),
    (localnet(subnets=None, ipam={"mode": "Disabled"}, excludeSubnets=["10.0.0.0/28"]), "excludeSubnets must be unset"),
    (localnet(excludeSubnets=["10.0.1.0/28"]), "must be subnetworks"),
    (localnet(vlan={"mode": "Access"}), "vlan access config"),
    (localnet(vlan={"mode": "Access", "access": {"id": 0}}), "from 1 to 4094"),
    (localnet(vlan={"mode": "Trunk"}), "must be Access"),
    (localnet(joinSubnets=["100.65.0.0/16"]), "unknown field"),
    ({"topology": "Layer2"}, "is required when topology is"),
    ({**layer2(), "topology": "Layer3"}, "forbidden otherwise"),
    ({**layer2(), **layer3("10.0.0.0/16"), "topology": "Layer2"}, "forbidden otherwise"),
    ({**layer2(), "topology": None}, "is required"),
    ({**layer2(), "transport": "EVPN"}, "not supported by Heddle yet"),
    ({**layer2(), "transport": "Geneve"}, "must be NoOverlay or EVPN"),
    ({**layer2(), "noOverlay": {}}, "not supported by Heddle yet"),
    ({"topology": "Layer2", "layer2": []}, "expected a mapping"),
]

INVALID_CIDRS = [
    "",
    "10.0.0.0",
    "10.0.0.0/",
    "/24",
    "10.0.0.0/33",
    "10.0.0.0/024",
    "10.0.0.0/255.255.255.0",
    "10.0.0/24",
    "010.0.0.0/24",
    "10.0.0.0/24 ",
    "10.0.0.0/-1",
    "fd00::/129",
    "fd00::%eth0/64",
    "::ffff:10.0.0.0/120",
    "fd00:::/64",
    "10.0.0.0/24/25",
    "\uff11\uff10.0.0.0/24",
    "x" * 10_000,
]


@pytest.mark.parametrize("network", ALLOWED.values(), ids=ALLOWED)
def test_allowed(network: dict) -> None:
    _spec, messages = read(network)
    assert messages == []


@pytest.mark.parametrize(("network", "fragment"), REFUSED)
def test_refused_once(network: dict, fragment: str) -> None:
    _spec, messages = read(network)
    assert len(messages) == 1
    assert fragment in messages[0]


@pytest.mark.parametrize("cidr", INVALID_CIDRS)
def test_invalid_cidr(cidr: str) -> None:
    _spec, messages = read(layer2(subnets=[cidr]))
    assert len(messages) == 1
    assert "CIDR is invalid" in messages[0]


def test_cidrs_are_canonical() -> None:
    spec, _messages = read(layer2(subnets=["FD00:0:0::/64"], joinSubnets=["FD99:0000::/64"]))
    assert spec["subnets"] == [{"cidr": "fd00::/64", "hostSubnet": None}]
    assert spec["joinSubnets"] == ["fd99::/64"]


def test_all_fields_reach_the_normal_form() -> None:
    spec, _messages = read(
        layer2(
            mtu=1400,
            joinSubnets=["100.66.0.0/16"],
            reservedSubnets=["10.0.0.16/28"],
            infrastructureSubnets=["10.0.0.0/28"],
            defaultGatewayIPs=["10.0.0.1"],
            ipam={"lifecycle": "Persistent"},
        )
    )
    assert spec == {
        "topology": "Layer2",
        "role": "Primary",
        "mtu": 1400,
        "subnets": [{"cidr": "10.0.0.0/24", "hostSubnet": None}],
        "joinSubnets": ["100.66.0.0/16"],
        "excludeSubnets": [],
        "reservedSubnets": ["10.0.0.16/28"],
        "infrastructureSubnets": ["10.0.0.0/28"],
        "defaultGatewayIPs": ["10.0.0.1"],
        "physicalNetworkName": None,
        "vlan": None,
        "ipam": {"mode": "Enabled", "lifecycle": "Persistent"},
        "namespaceSelector": {"matchLabels": {}, "matchExpressions": []},
    }


def test_localnet_normal_form() -> None:
    spec, _messages = read(localnet(vlan={"mode": "Access", "access": {"id": 7}}, excludeSubnets=["10.0.0.9/28"]))
    assert (spec["physicalNetworkName"], spec["vlan"], spec["excludeSubnets"]) == ("tenants", 7, ["10.0.0.0/28"])
