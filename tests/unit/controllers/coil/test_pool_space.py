# SPDX-License-Identifier: Apache-2.0
"""Geometry of pools, and the choice of blocks and addresses: the cases of Coil's own tests, and properties."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.heddle.ovn.plugins.module_utils.controllers.coil.pool_space import (
    PoolSpace,
    first_fit,
    next_fit,
)

TWO = PoolSpace(
    1, ({"ipv4": "10.2.0.0/29", "ipv6": "fd02::200/125"}, {"ipv4": "10.3.0.0/30", "ipv6": "fd02::300/126"})
)  # fmt: skip


def test_blocks_count_over_the_concatenation_of_subnets():
    assert TWO.block_count == 6
    assert TWO.block(0) == {"ipv4": "10.2.0.0/31", "ipv6": "fd02::200/127"}
    assert TWO.block(4) == {"ipv4": "10.3.0.0/31", "ipv6": "fd02::300/127"}
    for beyond in (6, -1):
        with pytest.raises(IndexError):
            TWO.block(beyond)
    assert TWO.addresses(9) == ["10.3.0.1", "fd02::301"]
    with pytest.raises(IndexError):
        TWO.addresses(12)


@pytest.mark.parametrize(
    ("bits", "subnet", "index", "block"),
    [
        (2, {"ipv4": "10.2.0.0/24", "ipv6": "fd02::900:0/120"}, 3, ["10.2.0.12/30", "fd02::900:c/126"]),
        (5, {"ipv4": "10.2.0.0/16"}, 16, ["10.2.2.0/27"]),
        (5, {"ipv6": "fd01:203:405:607::/112"}, 16, ["fd01:203:405:607::200/123"]),
        (0, {"ipv4": "10.2.0.7/32"}, 0, ["10.2.0.7/32"]),
    ],
)
def test_the_place_of_a_block(bits, subnet, index, block):
    assert list(PoolSpace(bits, (subnet,)).block(index).values()) == block


def test_addresses_rest_until_the_block_was_gone_round():
    # Block 10.2.3.0/30 after a restart with .0 and .2 in use.
    assert next_fit(4, {0, 2}, 2) == 3
    assert next_fit(4, {0, 2, 3}, 3) == 1
    assert next_fit(4, {0, 1, 2, 3}, 1) is None
    # All given; 3 and then 0 become free: 0 comes first.
    assert next_fit(4, {1, 2}, 3) == 0
    assert next_fit(4, {0, 1, 2}, 0) == 3
    # A block of one address cannot avoid it.
    assert next_fit(1, set(), 0) == 0


def test_the_lowest_free_block_is_taken():
    assert list(first_fit(5, {0, 3})) == [1, 2, 4]


@given(st.integers(0, 3), st.lists(st.integers(0, 4), min_size=1, max_size=4), st.data())
def test_every_address_of_a_pool_has_one_number(bits, sizes, data):
    families = data.draw(st.sampled_from([("ipv4",), ("ipv6",), ("ipv4", "ipv6")]))
    text = {"ipv4": ("10.{}.0.0", 32), "ipv6": ("fd02:{}::", 128)}
    subnets = tuple(
        {name: f"{text[name][0].format(place)}/{text[name][1] - bits - size}" for name in families}
        for place, size in enumerate(sizes)
    )
    space = PoolSpace(bits, subnets)
    for name in families:
        whole = [
            str(address) for subnet in subnets for address in ipaddress.ip_network(subnet[name])
        ]  # fmt: skip
        position = families.index(name)
        assert [space.addresses(number)[position] for number in range(len(whole))] == whole
        blocks = [ipaddress.ip_network(space.block(index)[name]) for index in range(space.block_count)]
        assert [str(address) for block in blocks for address in block] == whole
