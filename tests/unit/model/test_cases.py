# SPDX-License-Identifier: Apache-2.0
"""Every rule of UserDefinedNetwork and ClusterUserDefinedNetwork at its boundaries: the tables in cases/.

Their verdicts are those of an API server with the custom resource definitions of ovn-kubernetes 1.3; `okep` marks what
only the form of OKEP-5193 has.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from ansible_collections.heddle.ovn.plugins.module_utils.model import Resource, check_update, read_manifests

CASES = Path(__file__).parent / "cases"


def load(name: str) -> dict:
    """A table."""
    return yaml.safe_load((CASES / f"{name}.yml").read_text())


def manifest(spec, kind: str = "ClusterUserDefinedNetwork") -> dict:
    """A network named blue."""
    namespace = {"namespace": "red"} if kind == "UserDefinedNetwork" else {}
    metadata = {"name": "blue", **namespace}
    return {"apiVersion": "k8s.ovn.org/v1", "kind": kind, "metadata": metadata, "spec": spec}


def merged(base: dict, fields: dict) -> dict:
    """The base with some fields replaced; null takes one away."""
    return {name: value for name, value in {**base, **fields}.items() if value is not None or name in fields}


def section_cases(name: str):
    """The cases of a table about the section of one topology."""
    table = load(name)
    for case in table["cases"]:
        network = {"topology": table["topology"], name: merged(table["base"], case.get("with", {}))}
        yield f"{name}: {case['name']}", manifest({"namespaceSelector": {}, "network": network}), case.get("says", [])


def all_cases():
    """Name, manifest and the expected fragments of its messages."""
    for name in ("layer2", "layer3", "localnet"):
        yield from section_cases(name)
    for case in load("network")["cases"]:
        spec = {"namespaceSelector": {}, "network": case["network"]}
        yield f"network: {case['name']}", manifest(spec), case.get("says", [])
    table = load("cluster")
    for case in table["cases"]:
        spec = merged(table["base"], case.get("with", {}))
        yield f"cluster: {case['name']}", manifest(spec), case.get("says", [])
    for case in load("namespaced")["cases"]:
        spec = manifest(case["spec"], "UserDefinedNetwork")
        yield f"namespaced: {case['name']}", spec, case.get("says", [])
    table = load("route_target")
    for text, says in {**dict.fromkeys(table["valid"], ()), **table["invalid"]}.items():
        network = {
            "topology": "Layer2",
            "layer2": {"role": "Primary", "subnets": ["10.0.0.0/24"]},
            "transport": "EVPN",
            "evpn": {"vtep": "evpn", "macVRF": {"vni": 1, "routeTarget": text}},
        }
        yield f"routeTarget: {text}", manifest({"namespaceSelector": {}, "network": network}), says


def read(document: dict) -> tuple[list[Resource], list[str]]:
    """The resources and the messages of one manifest."""
    resources, problems = read_manifests([("network.json", json.dumps(document))])
    return resources, [str(problem) for problem in problems]


@pytest.mark.parametrize(
    ("document", "says"), [pytest.param(document, says, id=name) for name, document, says in all_cases()]
)
def test_verdict(document: dict, says: list[str]) -> None:
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


UPDATES = [
    pytest.param(case["old"], case["new"], case.get("says", []), id=case["name"]) for case in load("updates")["cases"]
]


@pytest.mark.parametrize(("old", "new", "says"), UPDATES)
@pytest.mark.parametrize("labels", [{}, {"tenant": "red"}], ids=["same namespaces", "other namespaces"])
def test_update(old: dict, new: dict, says: list[str], labels: dict) -> None:
    ((stored,), before) = read(manifest({"namespaceSelector": {}, **old}))
    ((wanted,), after) = read(manifest({"namespaceSelector": {"matchLabels": labels}, **new}))
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
