# SPDX-License-Identifier: Apache-2.0
"""The result of reading: one valid manifest, normalised."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from .problem import Source


@dataclass(frozen=True)
class Resource:
    """One manifest without mistakes. ``spec`` is normalised, ``manifest`` is the document as written."""

    kind: str
    name: str
    namespace: str | None
    labels: dict
    annotations: dict
    spec: dict
    manifest: dict
    source: Source

    @cached_property
    def key(self) -> str:
        """``Kind/namespace/name``, or ``Kind/name`` for a cluster-scoped kind."""
        parts = (self.kind, self.namespace, self.name)
        return "/".join(part for part in parts if part is not None)


def packed(resource: Resource) -> dict:
    """Return a resource as JSON-ready data."""
    fields = ("kind", "name", "namespace", "labels", "annotations", "spec", "manifest")
    source = {"file": resource.source.file, "document": resource.source.document, "line": resource.source.line}
    return {**{name: getattr(resource, name) for name in fields}, "source": source}


def unpacked(data: dict) -> Resource:
    """Return the resource that `packed` turned into data."""
    return Resource(**{**data, "source": Source(**data["source"])})
