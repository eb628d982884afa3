# SPDX-License-Identifier: Apache-2.0
"""AddressPool: defaults, what may change; the cases of Coil's own webhook tests."""

from __future__ import annotations

import json

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.api import Resource, check_update, read_manifests

V4, V6 = {"ipv4": "10.2.0.0/24"}, {"ipv6": "fd02::/120"}


def read(spec: dict) -> tuple[list[Resource], list[str]]:
    manifest = {
        "apiVersion": "coil.cybozu.com/v2", "kind": "AddressPool", "metadata": {"name": "pool1"}, "spec": spec,
    }  # fmt: skip
    resources, problems = read_manifests([("a.json", json.dumps(manifest))])
    return resources, [problem.rule for problem in problems]


def pool(subnets: list[dict], **spec) -> Resource:
    ((resource,), problems) = read({"subnets": subnets, **spec})
    assert not problems
    return resource


def test_default_block_size_and_an_explicit_zero() -> None:
    assert pool([V4]).spec == {"blockSizeBits": 5, "subnets": [V4]}
    assert pool([V4], blockSizeBits=0).spec["blockSizeBits"] == 0


def test_host_bits_are_masked_and_text_is_canonical() -> None:
    assert pool([{"ipv4": "10.2.0.9/24", "ipv6": "FD02:0::1/120"}]).spec["subnets"] == [
        {"ipv4": "10.2.0.0/24", "ipv6": "fd02::/120"}
    ]


@pytest.mark.parametrize(
    ("subnet", "bits", "is_valid"),
    [
        ({"ipv4": "10.2.0.0/32"}, 0, True),
        ({"ipv4": "10.2.0.0/27"}, 5, True),
        ({"ipv4": "10.2.0.0/28"}, 5, False),
        ({"ipv6": "fd02::/123"}, 5, True),
        ({"ipv6": "fd02::/124"}, 5, False),
        ({"ipv4": "10.2.0.0/24", "ipv6": "fd02::/120"}, 5, True),
        ({"ipv4": "10.2.0.0/24", "ipv6": "fd02::/112"}, 5, False),
        ({}, 5, False),
        ({"ipv4": "fd02::/112"}, 5, False),
        ({"ipv6": "10.2.0.0/24"}, 5, False),
        ({"ipv4": "10.2.0.0"}, 5, False),
    ],
)
def test_subnets(subnet: dict, bits: int, is_valid: bool) -> None:
    _resources, problems = read({"blockSizeBits": bits, "subnets": [subnet]})
    assert (not problems) is is_valid


def test_subnets_may_be_appended() -> None:
    assert check_update(pool([V4]), pool([V4, V6])) == []


@pytest.mark.parametrize(
    ("wanted", "rule"),
    [
        (pool([V4, V6], blockSizeBits=4), "blockSizeBits is immutable: it is 5, not 4"),
        (pool([V4]), "subnets cannot be removed: there are 2, not 1"),
        (pool([V6, V4]), "subnets cannot be changed, only appended: number 0 is 10.2.0.0/24, not fd02::/120"),
        (pool([V4, {"ipv6": "fd03::/120"}]),
         "subnets cannot be changed, only appended: number 1 is fd02::/120, not fd03::/120"),
    ],
)  # fmt: skip
def test_what_may_not_change(wanted: Resource, rule: str) -> None:
    remedies = {problem.rule: problem.remedy for problem in check_update(pool([V4, V6]), wanted)}
    assert remedies[rule] == "restore the value, or delete the pool first"


def test_the_default_block_size_equals_the_same_number_written() -> None:
    assert check_update(pool([V4]), pool([V4], blockSizeBits=5)) == []
