# SPDX-License-Identifier: Apache-2.0
"""The annotation with which a workload selects networks, in both forms; its mistakes are in tests/golden/errors."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.heddle.ovn.plugins.module_utils.api import read_manifests
from ansible_collections.heddle.ovn.plugins.module_utils.api.networks.network_selection import NETWORKS
from tests.pipeline import workload


def manifest(text, **spec):
    return json.dumps(
        {
            "apiVersion": "heddle.dev/v1",
            "kind": "Workload",
            "metadata": {"name": "w", "namespace": "red", "annotations": {NETWORKS: text}},
            "spec": {"node": "node1", **spec},
        }
    )


def read(text, **spec):
    resources, problems = read_manifests([("t.yml", manifest(text, **spec))])
    return resources[0].spec["networks"] if resources else None, [str(problem) for problem in problems]


def selected(name, interface, namespace=None, **more):
    return {
        "name": name, "namespace": namespace, "interface": interface, "ips": [], "mac": None, "gateways": [], **more,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "networks"),
    [
        ("", []),
        (" \n", []),
        ("[]", []),
        ("net", [selected("net", "net1")]),
        ("a,b", [selected("a", "net1"), selected("b", "net2")]),
        (" a ,\n other/b @ eth1 ", [selected("a", "net1"), selected("b", "eth1", "other")]),
        # The position counts, as Multus has it, whether or not others have a name of their own.
        ("a@x,b", [selected("a", "x"), selected("b", "net2")]),
        ("a,a", [selected("a", "net1"), selected("a", "net2")]),
        (
            '[{"name": "a", "namespace": "other", "interface": "x"}, {"name": "b.c"}]',
            [selected("a", "x", "other"), selected("b.c", "net2")],
        ),
        (
            '[{"name": "a", "ips": ["192.0.2.20/24", "2001:DB8:0::20/64"], "mac": "02-00-00-00-00-0A", '
            '"default-route": ["192.0.2.1", "fe80::1"], "namespace": null}]',
            [
                selected(
                    "a", "net1", ips=["192.0.2.20/24", "2001:db8::20/64"], mac="02:00:00:00:00:0a",
                    gateways=["192.0.2.1", "fe80::1"],
                )
            ],
        ),
        (
            '[{"name": "a", "ips": ["192.0.2.0/31", "192.0.2.7/32"]}]',
            [selected("a", "net1", ips=["192.0.2.0/31", "192.0.2.7/32"])],
        ),
    ],
)  # fmt: skip
def test_both_forms(text, networks):
    assert read(text) == (networks, [])


def test_without_the_annotation_nothing_is_selected():
    assert read_manifests([("t.yml", workload("red", "w", "node1"))])[0][0].spec["networks"] == []


def test_the_annotation_of_other_kinds_means_nothing():
    text = json.dumps(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "red", "annotations": {NETWORKS: "[broken"}}}
    )
    resources, problems = read_manifests([("t.yml", text)])
    assert (resources[0].spec, problems) == ({}, [])


def test_a_mistake_names_the_network_of_the_list_and_its_field():
    _networks, problems = read('[{"name": "a"}, {"name": "b", "ips": ["192.0.2.20"]}]')
    assert len(problems) == 1
    assert f'metadata.annotations["{NETWORKS}"][1].ips[0]: Invalid value' in problems[0]
    assert "write 192.0.2.20/24" in problems[0]


def test_a_machine_sets_its_default_route_itself():
    text = '[{"name": "a", "default-route": ["192.0.2.1"]}]'
    assert read(text)[1] == []
    assert "default-route cannot be set in a virtual machine" in read(text, kind="vm")[1][0]


@pytest.mark.parametrize("text", ["[" * 100_000, '[{"name": ' + "9" * 5000 + "}]", '[{"name": "\\ud800"}]', "[NaN]"])
def test_hostile_text_is_a_mistake(text):
    networks, problems = read(text)
    assert networks is None
    assert problems


@given(st.text(max_size=40) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["name", "namespace", "interface", "ips", "mac", "default-route", "cni-args", "x"]), inner,
        max_size=4,
    ),
    max_leaves=8,
).map(json.dumps))  # fmt: skip
def test_no_text_makes_it_raise(text):
    networks, problems = read(text)
    assert (networks is None) == bool(problems)
