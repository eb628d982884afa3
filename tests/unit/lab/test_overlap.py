# SPDX-License-Identifier: Apache-2.0
"""The lab refuses subnets that the machine uses."""

import pytest

from lab.config import Network
from lab.errors import LabError
from lab.overlap import machine_networks, overlaps, refuse

SUBNETS = Network().subnets()


def address(local, prefixlen):
    return [{"ifname": "en0", "addr_info": [{"local": local, "prefixlen": prefixlen}]}]


@pytest.mark.parametrize(
    ("addresses", "routes", "expected"),
    [
        (address("192.0.2.2", 24), [], []),
        (address("198.18.1.77", 32), [], ["underlay 198.18.1.0/24 overlaps address 198.18.1.77/32 on en0"]),
        (address("fd00::2", 64), [], []),
        (address("fd00:6864:2::9", 64), [], ["provider fd00:6864:2::/64 overlaps address fd00:6864:2::9/64 on en0"]),
        ([], [{"dst": "default", "dev": "en0"}], []),
        ([], [{"dst": "0.0.0.0/0", "dev": "en0"}], []),
        ([], [{"dst": "ff00::/8", "dev": "en0", "type": "multicast"}], []),
        ([], [{"dst": "198.18.2.255", "dev": "en0", "type": "broadcast"}], []),
        ([], [{"dst": "198.18.2.1", "dev": "tun0"}], ["provider 198.18.2.0/24 overlaps route 198.18.2.1 on tun0"]),
        ([], [{"dst": "unreachable", "dev": "en0"}], []),
    ],
)
def test_what_overlaps(addresses, routes, expected):
    assert overlaps(SUBNETS, machine_networks(addresses, routes)) == expected


def test_a_wide_route_overlaps_every_segment():
    found = overlaps(SUBNETS, machine_networks([], [{"dst": "198.18.0.0/15", "dev": "wg0"}]))
    assert [sentence.split()[0] for sentence in found] == ["management", "underlay", "provider"]


def test_the_refusal_names_what_overlaps_and_the_remedy(monkeypatch):
    routes = [{"dst": "198.18.1.0/24", "dev": "wg0"}]
    monkeypatch.setattr("lab.overlap._ip", lambda *words: routes if "-4" in words else [])
    with pytest.raises(LabError, match=r"underlay 198\.18\.1\.0/24 overlaps route .* on wg0; set LAB_NETWORK_PREFIX"):
        refuse(Network())
    refuse(Network(prefix="198.19"))
