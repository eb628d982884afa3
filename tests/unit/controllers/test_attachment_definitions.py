# SPDX-License-Identifier: Apache-2.0
"""The attachment definitions that networks have: exact keys, and what happens to them."""

import json

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.api import read_manifests
from ansible_collections.heddle.ovn.plugins.module_utils.operations.object_view import document
from tests.pipeline import decide, namespace, stored

HEAD = "---\napiVersion: k8s.ovn.org/v1\n"
NESTED = HEAD + "kind: UserDefinedNetwork\nmetadata: {{name: net, namespace: red}}\nspec: {}\n"
COMMON = {
    "cniVersion": "1.1.0",
    "type": "ovn-k8s-cni-overlay",
    "name": "red_net",
    "netAttachDefName": "red/net",
    "role": "primary",
    "joinSubnet": "100.65.0.0/16,fd99::/64",
}


def config(snapshot, key="NetworkAttachmentDefinition/red/net"):
    return json.loads(snapshot.objects[key].manifest["spec"]["config"])


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (
            "{topology: Layer2, layer2: {role: Primary, subnets: [10.0.0.0/24, 'fd01::/64']}}",
            {**COMMON, "topology": "layer2", "subnets": "10.0.0.0/24,fd01::/64",
             "transitSubnet": "100.88.0.0/16,fd97::/64"},
        ),
        (
            "{topology: Layer2, layer2: {role: Primary, mtu: 1300, subnets: [10.0.0.0/24],"
            " joinSubnets: [100.70.0.0/16], ipam: {lifecycle: Persistent}}}",
            {**COMMON, "topology": "layer2", "subnets": "10.0.0.0/24", "transitSubnet": "100.88.0.0/16", "mtu": 1300,
             "joinSubnet": "100.70.0.0/16", "allowPersistentIPs": True},
        ),
        (
            "{topology: Layer2, layer2: {role: Primary, subnets: [10.0.0.0/24], reservedSubnets: [10.0.0.128/26],"
            " infrastructureSubnets: [10.0.0.192/29, 10.0.0.248/29]}}",
            {**COMMON, "topology": "layer2", "subnets": "10.0.0.0/24", "transitSubnet": "100.88.0.0/16",
             "reservedSubnets": "10.0.0.128/26", "infrastructureSubnets": "10.0.0.192/29,10.0.0.248/29"},
        ),
        (
            "{topology: Layer3, layer3: {role: Primary,"
            " subnets: [{cidr: 10.9.0.0/16, hostSubnet: 24}, {cidr: 'fd09::/48'}]}}",
            {**COMMON, "topology": "layer3", "subnets": "10.9.0.0/16/24,fd09::/48"},
        ),
        (
            "{topology: Layer2, layer2: {role: Secondary, subnets: [10.0.0.0/24]}}",
            {"cniVersion": "1.1.0", "type": "ovn-k8s-cni-overlay", "name": "red_net", "netAttachDefName": "red/net",
             "role": "secondary", "topology": "layer2", "subnets": "10.0.0.0/24"},
        ),
    ],
)  # fmt: skip
def test_the_configuration_has_exactly_the_keys_of_the_network(spec, expected):
    assert config(stored(namespace("red") + NESTED.format(spec))) == expected


def test_metadata_labels_annotations_owner_and_finalizer():
    text = NESTED.format("{topology: Layer2, layer2: {role: Primary, subnets: [10.0.0.0/24]}}").replace(
        "namespace: red}", "namespace: red, labels: {team: red},"
        " annotations: {note: hello, k8s.ovn.org/network-id: '99', k8s.ovn.org/other: x}}"
    )  # fmt: skip
    definition = stored(namespace("red") + text).objects["NetworkAttachmentDefinition/red/net"].manifest
    assert (definition["apiVersion"], definition["kind"]) == ("k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition")
    metadata = definition["metadata"]
    uid = metadata["ownerReferences"][0].pop("uid")
    assert len(uid) == 36
    assert metadata == {
        "name": "net",
        "namespace": "red",
        "labels": {"team": "red", "k8s.ovn.org/user-defined-network": ""},
        "annotations": {
            "note": "hello",
            "k8s.ovn.org/network-name": "red_net",
            "k8s.ovn.org/network-id": "1",
            "k8s.ovn.org/tunnel-keys": "[16711684,16715779]",
        },
        "finalizers": ["k8s.ovn.org/user-defined-network-protection"],
        "ownerReferences": [
            {
                "apiVersion": "k8s.ovn.org/v1",
                "kind": "UserDefinedNetwork",
                "name": "net",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }


def test_a_cluster_network_has_one_of_its_own_name_in_each_namespace():
    text = namespace("a") + namespace("b") + HEAD + (
        "kind: ClusterUserDefinedNetwork\nmetadata: {name: my-net}\n"
        "spec: {namespaceSelector: {}, network: {topology: Layer3, layer3: {role: Primary,"
        " subnets: [{cidr: 10.9.0.0/16, hostSubnet: 24}]}}}\n"
    )  # fmt: skip
    after = stored(text)
    for name in "ab":
        found = config(after, f"NetworkAttachmentDefinition/{name}/my-net")
        assert (found["name"], found["netAttachDefName"]) == ("cluster_udn_my-net", f"{name}/my-net")
    annotations = after.objects["NetworkAttachmentDefinition/a/my-net"].manifest["metadata"]["annotations"]
    assert annotations == {"k8s.ovn.org/network-name": "cluster_udn_my-net", "k8s.ovn.org/network-id": "1"}


def test_owner_labels_are_followed():
    text = namespace("red") + NESTED.format("{topology: Layer2, layer2: {role: Secondary, subnets: [10.0.0.0/24]}}")
    before = stored(text)
    after = stored(text.replace("namespace: red}", "namespace: red, labels: {a: b}}"), before)
    assert after.objects["NetworkAttachmentDefinition/red/net"].labels["a"] == "b"
    assert after.allocations == before.allocations


def test_a_managed_definition_cannot_be_applied_by_hand():
    text = namespace("red") + NESTED.format("{topology: Layer2, layer2: {role: Secondary, subnets: [10.0.0.0/24]}}")
    by_hand = (
        "---\napiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\n"
        "metadata: {name: net, namespace: red}\nspec: {config: '{}'}\n"
    )
    before = stored(text)
    _after, problems = decide(text + by_hand, before)
    assert ["is the attachment definition of UserDefinedNetwork/red/net" in str(one) for one in problems] == [True]


@pytest.mark.parametrize(
    ("spec", "fragments"),
    [
        ("{config: '{}'}", []),
        ("{config: ''}", []),
        ("{}", []),
        ("null", []),
        ("{config: 3}", ["expected text, got 3"]),
        ("{config: '{}', mtu: 3}", ["mtu"]),
        ("[]", ["spec"]),
    ],
)
def test_a_users_definition_may_hold_any_configuration(spec, fragments):
    text = (
        "apiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\n"
        f"metadata: {{name: mine, namespace: red}}\nspec: {spec}\n"
    )
    resources, problems = read_manifests([("t.yml", text)])
    assert len(resources) == (not fragments)
    assert [fragment in str(one) for one, fragment in zip(problems, fragments, strict=True)] == [True] * len(fragments)


def test_documents_have_server_side_fields():
    text = namespace("red") + NESTED.format("{topology: Layer2, layer2: {role: Secondary, subnets: [10.0.0.0/24]}}")
    after = stored(text)
    shown = document(after.objects["UserDefinedNetwork/red/net"], after.name)
    assert shown["metadata"]["finalizers"] == ["k8s.ovn.org/user-defined-network-protection"]
    assert shown["metadata"]["creationTimestamp"] == "2026-01-01T00:00:00Z"
    assert shown["status"]["activeNamespaces"] == ["red"]
    definition = after.objects["NetworkAttachmentDefinition/red/net"].manifest
    assert definition["metadata"]["ownerReferences"][0]["uid"] == shown["metadata"]["uid"]
