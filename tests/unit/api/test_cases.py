# SPDX-License-Identifier: Apache-2.0
"""Every rule of UserDefinedNetwork and ClusterUserDefinedNetwork at its boundaries: the tables in cases/.

Their results are those of an API server with the custom resource definitions of ovn-kubernetes 1.3; `okep` marks what
only the form of OKEP-5193 has.
"""

from __future__ import annotations

import json

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.api import Resource, check_update, read_manifests
from tests.unit.api.case_tables import all_cases, load, manifest, update_cases


def read(document: dict) -> tuple[list[Resource], list[str]]:
    """The resources and the messages of one manifest."""
    resources, problems = read_manifests([("network.json", json.dumps(document))])
    return resources, [str(problem) for problem in problems]


@pytest.mark.parametrize(
    ("document", "says"), [pytest.param(document, says, id=name) for name, document, says in all_cases()]
)
def test_validation_result(document: dict, says: list[str]) -> None:
    resources, messages = read(document)
    assert bool(resources) is not bool(says)
    assert len(messages) == len(says), messages
    for fragment in says:
        assert any(fragment in message for message in messages), messages


def test_names_of_cases_are_unique() -> None:
    names = [name for name, _document, _says in all_cases()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(("text", "normal_form"), list(load("cidr").items()))
def test_cidr(text: str, normal_form: str | None) -> None:
    network = {"topology": "Layer2", "layer2": {"role": "Primary", "subnets": [text]}}
    resources, messages = read(manifest({"namespaceSelector": {}, "network": network}))
    if normal_form:
        assert messages == []
        assert resources[0].spec["subnets"] == [{"cidr": normal_form, "hostSubnet": None}]
    else:
        assert len(messages) == 1
        assert ("Too long: may not be more than 43 bytes" if len(text) > 43 else "CIDR is invalid") in messages[0]


@pytest.mark.parametrize(("old", "new", "says"), [pytest.param(*case, id=name) for name, *case in update_cases()])
@pytest.mark.parametrize("labels", [{}, {"tenant": "red"}], ids=["same namespaces", "other namespaces"])
def test_update(old: dict, new: dict, says: list[str], labels: dict) -> None:
    ((stored,), before) = read(manifest(old))
    ((wanted,), after) = read(manifest({**new, "namespaceSelector": {"matchLabels": labels}}))
    assert (before, after) == ([], [])
    problems = check_update(stored, wanted)
    assert len(problems) == len(says), problems
    for fragment in says:
        assert any(fragment in problem.rule for problem in problems), problems


@pytest.mark.parametrize(("count", "accepted"), [(400, True), (401, False)])
def test_most_layer3_subnets(count: int, accepted: bool) -> None:
    subnets = [{"cidr": f"10.{number // 256}.{number % 256}.0/24"} for number in range(count)]
    network = {"topology": "Layer3", "layer3": {"role": "Primary", "subnets": subnets}}
    resources, messages = read(manifest({"namespaceSelector": {}, "network": network}))
    assert bool(resources) is accepted
    assert accepted or "Too many: 401: must have at most 400 items" in messages[0]
