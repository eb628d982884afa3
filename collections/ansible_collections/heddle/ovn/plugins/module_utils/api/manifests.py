# SPDX-License-Identifier: Apache-2.0
"""Reads manifests into resources and problems."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..common.text.nearest import nearest
from .kind import Kind
from .kinds import KINDS
from .names import is_dns_label, is_dns_subdomain, read_annotations, read_dns_label, read_labels
from .node import Fields, Node, Report
from .problem import Problem, Source, show
from .resource import Resource
from .yaml.yaml_text import Document, parse_documents

# Fields that an API server adds, or has made the name from: users paste the output of "kubectl get -o yaml".
_SERVER_FIELDS = (
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "managedFields",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
)
_METADATA_FIELDS = ("name", "namespace", "labels", "annotations", *_SERVER_FIELDS)


@dataclass(frozen=True)
class _Header:
    """What identifies a manifest, as far as it is valid."""

    kind: Kind
    name: str | None
    namespace: str | None
    labels: dict
    annotations: dict

    @property
    def identity(self) -> tuple | None:
        """Kind, namespace and name, or None while one of them is not known."""
        if self.name is None or (self.kind.namespaced and self.namespace is None):
            return None
        return self.kind.name, self.namespace, self.name


def read_manifests(files: Iterable[tuple[str, str]]) -> tuple[list[Resource], list[Problem]]:
    """Read ``[(file name, text), ...]``.

    Returns the resources of all documents without mistakes, and all problems of all files, each in the order of the
    text. No input makes this raise.
    """
    resources: list[Resource] = []
    problems: list[Problem] = []
    first_places: dict[tuple, Source] = {}
    for file, text in files:
        for document in parse_documents(file, text):
            report = Report(file, document, _resource_text(document.value))
            for mistake in document.mistakes:
                report.add(mistake.line, mistake.path, mistake.rule, mistake.remedy)
            if not document.broken and document.value is not None:
                resource = _read_document(document, report, first_places)
                if resource is not None and not report.problems:
                    resources.append(resource)
            problems.extend(sorted(report.problems, key=lambda problem: problem.source.line))
    return resources, problems


def _read_document(document: Document, report: Report, first_places: dict[tuple, Source]) -> Resource | None:
    root = Node(document.value, (), report)
    kind = _read_kind(root)
    if kind is None:
        return None
    fields = root.mapping(("apiVersion", "kind", "metadata", *(kind.root_fields or ("spec", "status"))))
    _check_api_version(fields, kind)
    header = _read_header(fields, kind)
    source = Source(report.file, document.number, document.line)
    _check_duplicate(root, header, source, first_places)
    spec = kind.read_spec(fields if kind.root_fields else fields.place("spec"))
    if spec is not None:
        metadata = fields.place("metadata")
        annotations = metadata.child("annotations") if isinstance(metadata.value, dict) else metadata
        spec = kind.read_annotations(annotations, spec)
    if header.name is None or spec is None:
        return None
    return Resource(
        kind=kind.name,
        name=header.name,
        namespace=header.namespace,
        labels=header.labels,
        annotations=header.annotations,
        spec=spec,
        manifest=document.value,
        source=source,
    )


def _read_kind(root: Node) -> Kind | None:
    if not isinstance(root.value, dict):
        root.refuse(f"a manifest must be a mapping, got {show(root.value)}", "start with kind: and metadata:")
        return None
    node = Node(root.value.get("kind"), ("kind",), root.report)
    if node.value is None:
        node.refuse("Required value", f"known kinds are {', '.join(KINDS)}")
        return None
    name = node.text()
    if name is not None and name not in KINDS:
        node.refuse(f"unknown kind {show(name)}", _remedy(name))
    return KINDS.get(name)


def _remedy(name: str) -> str:
    """Return what to do about an unknown kind; lists are what `kubectl get --output=yaml` writes of several objects."""
    if name.endswith("List") and name.removesuffix("List") in ("", *KINDS):
        return "write its items as documents of their own, separated by ---"
    return nearest(name, KINDS) or f"known kinds are {', '.join(KINDS)}"


def _check_api_version(fields: Fields, kind: Kind) -> None:
    if kind.api_version_required:
        node = fields.require("apiVersion", f"set it to {kind.api_versions[0]}")
    else:
        node = fields.get("apiVersion")
    if node:
        node.choice(kind.api_versions)


def _read_header(fields: Fields, kind: Kind) -> _Header:
    metadata_node = fields.require("metadata", "add it with the name")
    if metadata_node is None:
        return _Header(kind, None, None, {}, {})
    metadata = metadata_node.mapping(_METADATA_FIELDS)
    name_node = metadata.require("name", "give it a name")
    name = kind.read_name(name_node) if name_node else None
    labels = read_labels(metadata.get("labels"))
    for key, value in kind.own_labels(name).items() if name else ():
        if labels.setdefault(key, value) != value:
            metadata.get("labels").child(key).refuse(f"must be {show(value)}, got {show(labels[key])}", "remove it")
    return _Header(kind, name, _read_namespace(metadata, kind), labels, read_annotations(metadata.get("annotations")))


def _read_namespace(metadata: Fields, kind: Kind) -> str | None:
    if kind.namespaced and kind.default_namespace and metadata.get("namespace") is None:
        return kind.default_namespace
    if kind.namespaced:
        node = metadata.require("namespace", f"{kind.name} lives in a namespace")
        return read_dns_label(node) if node else None
    node = metadata.get("namespace")
    if node:
        node.refuse(f"must be unset, {kind.name} is cluster-scoped", "remove it")
    return None


def _check_duplicate(root: Node, header: _Header, source: Source, first_places: dict[tuple, Source]) -> None:
    if header.identity is None:
        return
    first = first_places.setdefault(header.identity, source)
    if first is not source:
        root.refuse(f"already defined at {first}", "remove or rename one of them")


def _resource_text(value) -> str:
    """``Kind ns/name`` for messages; invalid parts are left out, since they may hold anything."""
    if not isinstance(value, dict) or value.get("kind") not in tuple(KINDS):
        return ""
    kind = KINDS[value["kind"]]
    metadata = value.get("metadata")
    name, namespace = (metadata.get("name"), metadata.get("namespace")) if isinstance(metadata, dict) else (None, None)
    if not (isinstance(name, str) and is_dns_subdomain(name)):
        return kind.name
    if kind.namespaced and isinstance(namespace, str) and is_dns_label(namespace):
        return f"{kind.name} {namespace}/{name}"
    return f"{kind.name} {name}"
