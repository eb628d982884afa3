# SPDX-License-Identifier: Apache-2.0
"""Addresses and MACs as ovn-kubernetes derives them; the values are those that the design documents show."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.heddle.ovn.plugins.module_utils.common import addressing


@pytest.mark.parametrize(
    ("address", "mac"),
    [
        ("203.203.0.1", "0a:58:cb:cb:00:01"),
        ("100.65.0.2/16", "0a:58:64:41:00:02"),
        ("fd99::2", "0a:58:4d:58:9e:f6"),
    ],
)
def test_mac_of_address(address, mac):
    assert addressing.mac_of_address(address) == mac


def test_link_local_address_of_okep_5094():
    assert addressing.link_local_address("0a:58:64:41:00:02") == "fe80::858:64ff:fe41:2"


def test_transit_pair_even_is_the_transit_routers_side():
    assert addressing.transit_pair("100.88.0.0/16", 2) == ("100.88.0.4/31", "100.88.0.5/31")
    assert addressing.transit_pair("fd97::/64", 2) == ("fd97::4/127", "fd97::5/127")


def test_masquerade_pair_of_the_first_network():
    assert addressing.masquerade_pair("169.254.0.0/17", 1) == ("169.254.0.11", "169.254.0.12")
    assert addressing.masquerade_pair("fd69::/112", 1) == ("fd69::b", "fd69::c")


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**128 - 1), st.integers(0, 127))
def test_address_text_is_that_of_ipaddress(four, six, shift):
    assert addressing.address_text(4, four) == str(ipaddress.IPv4Address(four))
    # Shifted to both sides, for texts with zeros at the beginning and at the end.
    for number in (
        six,
        six >> shift,
        six >> shift << shift,
        six >> shift & (0xFFFF << 64 | 0xFFFF),
        0xFFFF << 32 | four,
    ):
        assert addressing.address_text(6, number) == str(ipaddress.IPv6Address(number))


def test_free_addresses_skip_base_broadcast_taken_and_excluded():
    found = list(addressing.free_addresses("10.0.0.0/28", {"10.0.0.3"}, ["10.0.0.4/30", "fd00::/64"]))
    assert found == ["10.0.0.1", "10.0.0.2", *(f"10.0.0.{last}" for last in range(8, 15))]


def test_an_excluded_half_of_a_huge_subnet_is_skipped_in_one_step():
    assert next(addressing.free_addresses("fd00::/16", set(), ["fd00::/17"])) == "fd00:8000::"


@pytest.mark.parametrize(("cidr", "prefix", "count"), [("10.128.0.0/16", 24, 256), ("fd00:10:244::/48", 64, 65536)])
def test_subnet_capacity_and_last_subnet(cidr, prefix, count):
    assert addressing.subnet_capacity(cidr, prefix) == count
    last = ipaddress.ip_network(addressing.nth_subnet(cidr, prefix, count - 1))
    assert last.subnet_of(ipaddress.ip_network(cidr))
    assert last[-1] == ipaddress.ip_network(cidr)[-1]


@given(st.integers(1, 4095))
def test_masquerade_addresses_of_all_networks_differ_and_fit(network_id):
    pair = addressing.masquerade_pair("169.254.0.0/17", network_id)
    other = addressing.masquerade_pair("169.254.0.0/17", network_id % 4095 + 1)
    assert len({*pair, *other}) == 4
    assert all(ipaddress.ip_address(address) in ipaddress.ip_network("169.254.0.0/17") for address in pair)
