# SPDX-License-Identifier: Apache-2.0
"""What of an inventory contradicts the interfaces and addresses of a host."""

from __future__ import annotations

import json

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.next_hops import next_hop_problem
from ansible_collections.heddle.ovn.plugins.plugin_utils.inventory.host_network import network_problems

# As `ip -json address` prints them; the empty object is what some releases of iproute2 add.
LINKS = [
    {"ifname": "lo", "addr_info": [{"local": "127.0.0.1", "prefixlen": 8}]},
    {"ifname": "eth0", "altnames": ["enp1s0"], "addr_info": []},
    {"ifname": "eth1", "addr_info": [{"local": "192.0.2.11", "prefixlen": 24}, {"local": "fe80::1", "prefixlen": 64}]},
    {},
]
GIVEN = {"heddle_underlay_interface": "eth0", "heddle_uplink": "eth1", "heddle_provider_next_hops": ["192.0.2.1"]}


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, []),
        ({"heddle_uplink": ""}, []),
        (
            {"heddle_uplink": "eht1"},
            ["host n1: heddle_uplink: there is no interface eht1; did you mean eth1?"],
        ),
        (
            {"heddle_underlay_interface": "enp1s0"},
            ["host n1: heddle_underlay_interface: there is no interface enp1s0; write eth0, whose other name this is"],
        ),
        (
            {"heddle_physical_networks": {"factory": {"bridge": "br-factory", "uplink": "bond7"}}},
            ["host n1: heddle_physical_networks.factory.uplink: there is no interface bond7; the host has eth0, eth1"],
        ),
        (
            {"heddle_provider_next_hops": ["198.51.100.1", "2001:db8::1"]},
            [
                "host n1: heddle_provider_next_hops[0]: 198.51.100.1 is in no subnet of eth1 (192.0.2.0/24); "
                "write the address of a router in the provider network",
                "host n1: heddle_provider_next_hops[1]: 2001:db8::1 is not reachable: eth1 has no IPv6 address; "
                "write the address of a router in the provider network",
            ],
        ),
    ],
)
def test_inventory_and_host(variables: dict, expected: list[str]):
    assert network_problems("n1", json.dumps(LINKS), {**GIVEN, **variables}) == expected


def test_after_the_installation_the_bridge_has_the_addresses():
    links = [{"ifname": "eth0"}, {"ifname": "eth1"}, {**LINKS[2], "ifname": "br-ex"}]
    assert network_problems("n1", json.dumps(links), GIVEN) == []


@pytest.mark.parametrize("text", ["", "ip: command not found", "{}", "[1]"])
def test_a_host_whose_addresses_are_unknown_is_not_compared(text: str):
    assert network_problems("n1", text, {**GIVEN, "heddle_uplink": "eth9"}) == []


@pytest.mark.parametrize(
    ("hop", "addresses", "reachable"),
    [
        ("192.0.2.1", ["192.0.2.11/24"], True),
        ("192.0.3.1", ["192.0.2.11/24"], False),
        ("192.0.3.1", ["192.0.2.11/23"], True),
        ("192.0.3.1", ["192.0.2.11/32"], True),
        ("192.0.3.1", ["192.0.2.11/32", "198.51.100.1/24"], False),
        ("fe80::1", ["192.0.2.11/24"], True),
        ("2001:db8::1", ["fe80::2/64"], False),
        ("2001:db8::1", ["2001:db8::2/64"], True),
    ],
)
def test_next_hop(hop: str, addresses: list[str], reachable: bool):
    assert (next_hop_problem(hop, "eth1", addresses) == "") == reachable
