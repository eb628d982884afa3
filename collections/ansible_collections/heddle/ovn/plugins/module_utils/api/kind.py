# SPDX-License-Identifier: Apache-2.0
"""The description of a kind of manifest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .names import read_dns_subdomain
from .node import Fields, Node


@dataclass(frozen=True)
class Kind:
    """A kind of manifest.

    ``read_spec`` gets the field ``spec`` (its value may be None) and returns the normalised spec.
    ``read_annotations`` gets the field ``metadata.annotations`` (its value may be None) and that spec, and returns the
    spec with what annotations say.
    ``read_name`` reads ``metadata.name``. ``own_labels`` are labels that every object of the kind has implicitly.
    ``default_namespace`` is the namespace of an object without one; if None, the namespace is required.
    ``root_fields`` are the fields of a kind that has no ``spec``, and has them beside ``metadata``; ``read_spec`` gets
    all fields of the document then.
    """

    name: str
    api_versions: tuple[str, ...]
    namespaced: bool
    read_spec: Callable[[Node | Fields], dict | None]
    api_version_required: bool = True
    default_namespace: str | None = None
    read_name: Callable[[Node], str | None] = read_dns_subdomain
    read_annotations: Callable[[Node, dict], dict] = lambda annotations, spec: spec
    own_labels: Callable[[str], dict[str, str]] = lambda name: {}
    root_fields: tuple[str, ...] = ()
