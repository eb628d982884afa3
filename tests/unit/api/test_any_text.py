# SPDX-License-Identifier: Apache-2.0
"""No text makes the model raise, and what it accepts can be stored."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.heddle.ovn.plugins.module_utils.api import (
    check_update,
    read_manifests,
    unsupported,
)
from tests.unit.api.case_tables import all_cases, manifest, update_cases

ROOT = Path(__file__).parents[3]
GOOD = [path.read_text() for path in sorted((ROOT / "inventories").rglob("manifests/*.yml"))]
CASES = [document for _name, document, _says in all_cases()]
VERSIONS = [spec for _name, old, new, _says in update_cases() for spec in (old, new)]
WRONG = [path.read_text() for path in sorted((ROOT / "tests" / "golden" / "errors").glob("*.yml"))]

# Characters and words that mean something to YAML or to a manifest.
characters = st.sampled_from(" \t\n\r-?:,[]{}#&*!|>'\"%@`~/.\\0\x00\ud800\u2028\ufeff")
fragments = characters | st.sampled_from(["---\n", "...\n", "<<", "null", "yes", "1e9", "kind: ", "spec:"])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | fragments,
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=5), children, max_size=3),
    max_leaves=5,
)


def check(text: str, name: str = "a.yml") -> None:
    """Whatever holds for every text."""
    resources, problems = read_manifests([(name, text)])
    for problem in problems:
        assert len(str(problem).splitlines()) == 1
        assert problem.source.line >= 1
        assert problem.source.document >= 1
    for resource in resources:
        stored = json.dumps([resource.manifest, resource.spec, resource.labels, resource.annotations], allow_nan=False)
        stored.encode()
        if resource.kind in ("UserDefinedNetwork", "ClusterUserDefinedNetwork"):
            assert all(len(rule.splitlines()) == 1 for _path, rule, _remedy in unsupported(resource.spec))
            assert check_update(resource, resource) == []


@given(st.text(st.characters()))
def test_any_text(text: str) -> None:
    check(text)


@given(st.lists(fragments, max_size=40))
def test_any_yaml_like_text(parts: list[str]) -> None:
    check("".join(parts))
    check("kind: Namespace\n" + "".join(parts), "a.json")


@given(st.sampled_from(GOOD + WRONG), st.data())
def test_cut_and_pasted_manifests(text: str, data: st.DataObject) -> None:
    """Replace a piece of a manifest by something else."""
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 30)))
    check(text[:start] + data.draw(fragments | st.text(max_size=10)) + text[end:])


@given(st.sampled_from(GOOD), st.data())
def test_any_value_in_any_field(text: str, data: st.DataObject) -> None:
    """Replace the value of a field of a valid manifest by any other value, of any type."""
    manifest = data.draw(st.sampled_from([resource.manifest for resource in read_manifests([("a.yml", text)])[0]]))
    manifest = json.loads(json.dumps(manifest))
    place = manifest
    while True:
        key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
        if not (isinstance(place[key], dict | list) and place[key]) or data.draw(st.booleans()):
            break
        place = place[key]
    place[key] = data.draw(values)
    check(json.dumps(manifest))


# Values that the rules accept, so that a generated network passes the first of them.
FIELDS = st.sampled_from(
    [
        "topology",
        "layer2",
        "layer3",
        "localnet",
        "role",
        "mtu",
        "subnets",
        "cidr",
        "hostSubnet",
        "joinSubnets",
        "excludeSubnets",
        "reservedSubnets",
        "ipam",
        "mode",
        "infrastructureSubnets",
        "defaultGatewayIPs",
        "lifecycle",
        "ipamLifecycle",
        "physicalNetworkName",
        "vlan",
        "access",
        "id",
        "transport",
        "evpn",
        "vtep",
        "noOverlay",
        "outboundSNAT",
        "routing",
        "macVRF",
        "ipVRF",
        "vni",
        "routeTarget",
        "namespaceSelector",
        "network",
        "template",
        "spec",
        "uplinks",
        "matchLabels",
        "matchExpressions",
        "key",
        "operator",
        "values",
    ]
)
WORDS = st.sampled_from(
    [
        "Layer2",
        "Layer3",
        "Localnet",
        "Primary",
        "Secondary",
        "Enabled",
        "Disabled",
        "Persistent",
        "Access",
        "EVPN",
        "NoOverlay",
        "Managed",
        "10.0.0.0/24",
        "10.0.0.0/16/24",
        "fd00::/64",
        "10.0.0.1",
        "fd00::1",
        "65000:7",
        "*:7",
        "In",
        "NotIn",
        "Exists",
        "a",
    ]
)
networks = st.recursive(
    WORDS | st.integers(-1, 70000) | st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(FIELDS, children, max_size=6),
    max_leaves=30,
)


@given(st.sampled_from(["UserDefinedNetwork", "ClusterUserDefinedNetwork"]), networks)
def test_any_network(kind: str, spec) -> None:
    check(json.dumps(manifest(spec, kind)))


@given(st.sampled_from(CASES), st.data())
def test_any_change_of_a_case(document: dict, data: st.DataObject) -> None:
    """Replace, add or remove fields of a network, valid or not."""
    document = json.loads(json.dumps(document))
    for _time in range(data.draw(st.integers(1, 3))):
        places = list(containers(document))
        place = data.draw(st.sampled_from(places))
        if isinstance(place, list):
            place.append(data.draw(networks))
        elif place and data.draw(st.booleans()):
            del place[data.draw(st.sampled_from(sorted(place)))]
        else:
            place[data.draw(FIELDS)] = data.draw(networks)
    check(json.dumps(document))


@given(st.sampled_from(VERSIONS), st.sampled_from(VERSIONS))
def test_any_update(old: dict, new: dict) -> None:
    """Any version of a network may follow any other."""
    ((stored,), _problems) = read_manifests([("old.json", json.dumps(manifest(old)))])
    ((wanted,), _problems) = read_manifests([("new.json", json.dumps(manifest(new)))])
    for problem in check_update(stored, wanted):
        assert len(str(problem).splitlines()) == 1


def containers(value):
    """A value and all mappings and lists in it."""
    if isinstance(value, dict | list):
        yield value
        for item in value.values() if isinstance(value, dict) else value:
            yield from containers(item)


def test_valid_manifests_are_accepted() -> None:
    """Otherwise the tests above would mutate invalid manifests only."""
    for text in GOOD:
        resources, problems = read_manifests([("a.yml", text)])
        assert resources
        assert problems == []
