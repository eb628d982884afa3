# SPDX-License-Identifier: Apache-2.0
"""Names, namespaces, labels, annotations and identity of manifests."""

from __future__ import annotations

import json

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.api import read_manifests


def document(kind: str, metadata, **fields) -> str:
    """A manifest as JSON, which is YAML too."""
    return json.dumps({"kind": kind, "metadata": metadata, **fields}, ensure_ascii=False)


def namespace(**metadata) -> str:
    """A Namespace named red."""
    return document("Namespace", {"name": "red", **metadata}, apiVersion="v1")


def workload(**metadata) -> str:
    """A Workload red/web."""
    spec = {"node": "node1"}
    return document("Workload", {"name": "web", "namespace": "red", **metadata}, apiVersion="heddle.dev/v1", spec=spec)


def messages(*documents: str) -> list[str]:
    """The messages about documents in one file."""
    return [str(problem) for problem in read_manifests([("a.yml", "\n---\n".join(documents))])[1]]


def test_workload() -> None:
    ((resource,), problems) = read_manifests([("a.yml", workload(labels={"app": "web"}))])
    assert problems == []
    assert resource.key == "Workload/red/web"
    assert resource.labels == {"app": "web"}
    assert resource.spec["node"] == "node1"


def test_namespace_carries_its_name_as_label() -> None:
    ((resource,), _problems) = read_manifests([("a.yml", namespace(labels={"tenant": "red"}))])
    assert (resource.key, resource.namespace, resource.spec) == ("Namespace/red", None, {})
    assert resource.labels == {"tenant": "red", "kubernetes.io/metadata.name": "red"}
    assert resource.manifest["metadata"]["labels"] == {"tenant": "red"}


def test_server_side_fields_are_ignored() -> None:
    metadata = {
        "creationTimestamp": None,
        "finalizers": ["a"],
        "generation": 1,
        "managedFields": [{}],
        "ownerReferences": [{}],
        "resourceVersion": "1",
        "uid": "1",
    }
    text = namespace(**metadata)[:-1] + ', "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}'
    assert messages(text) == []


@pytest.mark.parametrize(
    "manifest",
    [
        namespace(name="a" * 63),
        namespace(name="0-0"),
        workload(name="a" * 63),
        workload(labels={"k8s.ovn.org/x": "", "A.b_c-d": "1.2_3-X", "a" * 63: "b" * 63}),
        workload(labels={".".join(["a" * 62] * 4) + "/x": "x"}),
        workload(labels=None, annotations=None),
        workload(generateName="web-"),
        workload(annotations={"Example.com/X": "any text: \n {}", "empty": ""}),
        workload(annotations={"a": "x" * (256 * 1024 - 1)}),
    ],
)
def test_allowed(manifest: str) -> None:
    assert messages(manifest) == []


@pytest.mark.parametrize(
    ("manifest", "fragment"),
    [
        (namespace(name="a" * 64), "metadata.name: "),
        (namespace(name="a.b"), "is not a DNS-1123 label"),
        (namespace(name="-a"), "is not a DNS-1123 label"),
        (namespace(name="a-"), "is not a DNS-1123 label"),
        (namespace(name="A"), "is not a DNS-1123 label"),
        (namespace(name="a\n"), "is not a DNS-1123 label"),
        (namespace(name="\u00e4"), "is not a DNS-1123 label"),
        (namespace(name=""), "is not a DNS-1123 label"),
        (namespace(name=1), "expected text, got 1"),
        (namespace(name=None), "metadata.name: Required value"),
        (namespace(namespace="red"), "metadata.namespace: must be unset"),
        (workload(name="a.b"), "is not a DNS-1123 label"),
        (workload(namespace=None), "metadata.namespace: Required value"),
        (workload(namespace="a.b"), "metadata.namespace: "),
        (workload(labels=[]), "metadata.labels: expected a mapping, got a list"),
        (workload(labels={"": "x"}), "is not a label key"),
        (workload(labels={"a/b/c": "x"}), "is not a label key"),
        (workload(labels={"/a": "x"}), "is not a label key"),
        (workload(labels={"a/": "x"}), "is not a label key"),
        (workload(labels={"A/b": "x"}), "is not a label key"),
        (workload(labels={"a" * 64: "x"}), "is not a label key"),
        (workload(labels={"a" * 254 + "/b": "x"}), "is not a label key"),
        (workload(labels={"a": "x" * 64}), "is not a label value"),
        (workload(labels={"a": "x."}), "is not a label value"),
        (workload(labels={"a": True}), "expected text, got true; put quotes around it"),
        (workload(labels={"a": None}), "expected text, got nothing"),
        (workload(annotations={"a b": "x"}), "is not a label key"),
        (workload(annotations={"a": 1}), "expected text, got 1"),
        (workload(annotations={"a": "x" * 256 * 1024}), "annotations are larger than 256 KiB"),
        (workload(annotations={"a": "\u00e9" * 128 * 1024}), "annotations are larger than 256 KiB"),
        (workload(name=None, generateName="web-"), "metadata.name: Required value"),
        (document("Workload", [], apiVersion="heddle.dev/v1", spec={"node": "a"}), "metadata: expected a mapping"),
        (document("Workload", None, apiVersion="heddle.dev/v1", spec={"node": "a"}), "metadata: Required value"),
        (document("Workload", {"name": "a", "namespace": "b"}, apiVersion="heddle.dev/v1"), "spec: is required"),
        (document("Workload", {"name": "a", "namespace": "b"}, spec={"node": "c"}), "apiVersion: Required value"),
        (document("Namespace", {"name": "a"}, apiVersion=1), "apiVersion: expected text"),
        (document("Namespace", {"name": "a"}, apiVersion="v1", data={}), "data: unknown field"),
        (document("Nothing", {"name": "a"}), 'unknown kind "Nothing"'),
        (document("List", None, items=[]), "documents of their own, separated by ---"),
        (document("NamespaceList", None, items=[]), "documents of their own, separated by ---"),
        (document(["Namespace"], {"name": "a"}), "kind: expected text, got a list"),
        (document(None, {"name": "a"}), "kind: Required value"),
        ("[]", "a manifest must be a mapping, got a list"),
        ("text", 'a manifest must be a mapping, got "text"'),
    ],
)
def test_refused_once(manifest: str, fragment: str) -> None:
    found = messages(manifest)
    assert len(found) == 1
    assert fragment in found[0]


def test_a_service_with_a_wrong_type_shows_all_its_other_mistakes() -> None:
    spec = {"type": "loadbalancer", "sessionAffinity": "client", "selector": {"a": 5}, "ports": [{"port": "80"}]}
    found = messages(document("Service", {"name": "s", "namespace": "a"}, apiVersion="v1", spec=spec))
    named = ("spec.type", "spec.sessionAffinity", "spec.selector", "spec.ports[0].port")
    assert [sum(name in one for one in found) for name in named] == [1, 1, 1, 1]
    assert len(found) == len(named)


def test_a_network_without_namespace_is_in_default() -> None:
    spec = {"topology": "Layer2", "layer2": {"role": "Primary", "subnets": ["10.0.0.0/24"]}}
    text = document("UserDefinedNetwork", {"name": "blue"}, spec=spec)
    ((resource,), problems) = read_manifests([("a.yml", text)])
    assert problems == []
    assert resource.key == "UserDefinedNetwork/default/blue"


def test_names_are_unique_per_kind_and_namespace() -> None:
    assert messages(namespace(), workload(), workload(namespace="blue"), workload(name="web2")) == []


def test_duplicates_name_both_places() -> None:
    files = [("a.yml", namespace() + "\n---\n" + workload()), ("b.yml", workload()), ("c.yml", workload())]
    resources, problems = read_manifests(files)
    assert [resource.key for resource in resources] == ["Namespace/red", "Workload/red/web"]
    assert [str(problem) for problem in problems] == [
        f"{file} (document 1, Workload red/web): already defined at a.yml:3 (document 2); remove or rename one of them"
        for file in ("b.yml:1", "c.yml:1")
    ]


def test_duplicate_is_reported_with_its_other_errors() -> None:
    found = messages(workload(labels={"a b": "x"}), workload(labels={"a b": "x"}))
    assert len(found) == 3
    assert "already defined at a.yml:1 (document 1)" in found[2]
