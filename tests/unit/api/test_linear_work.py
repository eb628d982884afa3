# SPDX-License-Identifier: Apache-2.0
"""Validation does work in proportion to its input: calls are counted, for a clock would only measure the machine."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.api import check_update, read_manifests

NESTED = "{topology: Layer2, layer2: {role: Primary, subnets: [10.0.0.0/24]}}"


def calls(work: Callable[[], object]) -> int:
    """How many functions, of Python and of C, a piece of work calls."""
    count = 0

    def profile(_frame, event: str, _argument) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def network(spec: dict, kind: str = "ClusterUserDefinedNetwork", **metadata) -> str:
    """A manifest as JSON."""
    metadata = {"name": "blue", "namespace": "red", **metadata}
    if kind == "ClusterUserDefinedNetwork":
        metadata.pop("namespace")
        spec = {"namespaceSelector": {}, **spec}
    return json.dumps({"kind": kind, "metadata": metadata, "spec": spec})


def layer3(subnets: list[dict]) -> str:
    """A Layer3 network."""
    return network({"network": {"topology": "Layer3", "layer3": {"role": "Primary", "subnets": subnets}}})


def layer2(**fields) -> str:
    """A Layer2 network."""
    section = {"role": "Primary", "subnets": ["10.0.0.0/16"], **fields}
    return network({"network": {"topology": "Layer2", "layer2": section}})


def cidrs(count: int) -> list[str]:
    """Side by side."""
    return [f"10.{number // 256}.{number % 256}.0/24" for number in range(count)]


# What grows with its number; what is too much or wrong has to be as cheap as what is valid.
GROWING = {
    "layer3 subnets": lambda count: layer3([{"cidr": cidr} for cidr in cidrs(count)]),
    "layer3 subnets in descending order": lambda count: layer3([{"cidr": cidr} for cidr in reversed(cidrs(count))]),
    "the same subnet": lambda count: layer3([{"cidr": "10.0.0.0/16"}] * count),
    "a subnet that contains the others": lambda count: layer3(
        [{"cidr": cidr} for cidr in ["10.0.0.0/8", *cidrs(count)]]
    ),
    "different host subnets": lambda count: layer3(
        [{"cidr": cidr, "hostSubnet": 25 + index % 4} for index, cidr in enumerate(cidrs(count))]
    ),
    "invalid subnets": lambda count: layer3([{"cidr": "x"}] * count),
    "reserved subnets": lambda count: layer2(reservedSubnets=cidrs(count), infrastructureSubnets=cidrs(count)),
    "gateways": lambda count: layer2(defaultGatewayIPs=["10.0.0.1"] * count),
    "uplinks": lambda count: network({"uplinks": ["a"] * count, "network": {}}),
    "unknown fields": lambda count: layer2(**{f"subnet{number}": 1 for number in range(count)}),
    "labels": lambda count: network({}, labels={f"a{number}": "b" for number in range(count)}),
    "invalid labels": lambda count: network({}, labels={f"a {number}": "b" for number in range(count)}),
    "selector": lambda count: network(
        {"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}] * count}}
    ),
    "selector values": lambda count: network(
        {"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"] * count}]}}
    ),
    "documents": lambda count: "\n---\n".join(
        f"{{kind: UserDefinedNetwork, metadata: {{name: n{number}, namespace: red}}, spec: {NESTED}}}"
        for number in range(count)
    ),
    "equal documents": lambda count: "\n---\n".join(
        [f"{{kind: UserDefinedNetwork, metadata: {{name: blue, namespace: red}}, spec: {NESTED}}}"] * count
    ),
    "empty documents": lambda count: "---\n" * count,
    "equal keys": lambda count: "kind: UserDefinedNetwork\n" * count,
    "aliases": lambda count: "\n".join(["a: &a [x, x, x, x]", *(f"b{number}: *a" for number in range(count))]),
    "nested text": lambda count: "[" * count,
    "comments": lambda count: "# nothing\n" * count,
    "blank lines before a directive": lambda count: "\n" * count + "%YAML 1.1\n",
}


@pytest.mark.parametrize("grow", GROWING.values(), ids=GROWING)
def test_reading_is_linear(grow: Callable[[int], str]) -> None:
    small, large = ([("a.yml", grow(count))] for count in (40, 160))
    read_manifests(small)
    few, many = (calls(lambda files=files: read_manifests(files)) for files in (small, large))
    # Sorting adds a little; pairs would make it sixteen times as many.
    assert many <= 5 * few


def test_an_update_is_linear() -> None:
    def update(count: int) -> int:
        ((stored,), _problems) = read_manifests([("a.json", layer3([{"cidr": cidr} for cidr in cidrs(count)]))])
        return calls(lambda: check_update(stored, stored))

    assert update(160) <= 5 * update(40)


def test_alias_bomb_cost_is_linear_in_its_text() -> None:
    def bomb(levels: int) -> str:
        lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
        lines += [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]" for level in range(1, levels)]
        return "\n".join(lines)

    few, many = (calls(lambda text=text: read_manifests([("a.yml", text)])) for text in (bomb(4), bomb(16)))
    _resources, problems = read_manifests([("a.yml", bomb(16))])
    assert [problem.rule for problem in problems] == ["aliases make this file too large"]
    assert many <= 5 * few


def test_aliases_nest_no_deeper_than_text() -> None:
    """What nests deeper could not be stored: the JSON encoder gives up."""

    def ladder(levels: int) -> str:
        steps = [f"  a{step}: &a{step} [*a{step - 1}]" for step in range(1, levels)]
        head = f"kind: UserDefinedNetwork\nmetadata: {{name: blue, namespace: red}}\nspec: {NESTED}\nstatus:\n"
        return head + "\n".join(["  a0: &a0 [x]", *steps])

    ((resource,), problems) = read_manifests([("a.yml", ladder(30))])
    assert problems == []
    assert json.loads(json.dumps(resource.manifest)) == resource.manifest
    for levels in (31, 2000):
        resources, problems = read_manifests([("a.yml", ladder(levels))])
        assert resources == []
        assert [problem.rule for problem in problems] == ["nested deeper than 32 levels"]
