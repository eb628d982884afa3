# SPDX-License-Identifier: Apache-2.0
"""The tables in cases/, as manifests and the fragments that their messages must have."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import yaml

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


def section_cases(name: str) -> Iterator[tuple[str, dict, list[str]]]:
    """The cases of a table about the section of one topology."""
    table = load(name)
    for case in table["cases"]:
        network = {"topology": table["topology"], name: merged(table["base"], case.get("with", {}))}
        yield f"{name}: {case['name']}", manifest({"namespaceSelector": {}, "network": network}), case.get("says", [])


def all_cases() -> Iterator[tuple[str, dict, list[str]]]:
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


def update_cases() -> Iterator[tuple[str, dict, dict, list[str]]]:
    """Name, specs before and after, and the expected fragments."""
    for case in load("updates")["cases"]:
        specs = ({"namespaceSelector": {}, **case[name]} for name in ("old", "new"))
        yield case["name"], *specs, case.get("says", [])
