# SPDX-License-Identifier: Apache-2.0
"""docs/kinds.md: the fields of each kind and their rules, from what the readers in api/kinds/ read.

The readers are run on the manifests of the tests and of the lab, and record which fields they know and how they read
them. The messages are those of tests/golden/errors.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from pathlib import Path

import yaml

from ansible_collections.heddle.ovn.plugins.module_utils.api import read_manifests
from ansible_collections.heddle.ovn.plugins.module_utils.api.coil.egress_selection import EGRESS
from ansible_collections.heddle.ovn.plugins.module_utils.api.kinds import KINDS
from ansible_collections.heddle.ovn.plugins.module_utils.api.manifests import _SERVER_FIELDS
from ansible_collections.heddle.ovn.plugins.module_utils.api.node import Node

ROOT = Path(__file__).resolve().parents[2]
MANIFESTS = ("tests/golden/northbound", "tests/golden/errors", "tests/golden/host", "inventories")
DESCRIPTIONS = Path(__file__).with_name("fields.yml")
EXAMPLE = Path(__file__).with_name("fields_example.yml")
EVERY_KIND = "every_kind"
_HEAD = """# Manifests

Generated from the readers in `api/kinds/` and from `scripts/docs/fields.yml`: every field that each kind accepts, and
how it is read. Other fields are refused; [mistakes.md](mistakes.md) has the messages.

Every kind has `apiVersion`, `kind` and `metadata` with `name`, `namespace` (unless the kind is for all namespaces),
`labels` and `annotations`.
"""
# Fields that are the same in every kind.
_COMMON = (
    "apiVersion",
    "kind",
    "metadata",
    *(f"metadata.{name}" for name in ("annotations", "labels", "name", "namespace")),
)
_MISTAKES = """# Mistakes in manifests

Generated from `tests/golden/errors`: the messages, each with field, rule and remedy, by kind.
"""
Fields = dict[str, set[str]]


class _Recording:
    """Records what readers do with nodes; the fields of each kind by path, as long as it is entered."""

    def __init__(self) -> None:
        self.fields: dict[str, Fields] = defaultdict(lambda: defaultdict(set))
        methods = ("mapping", "entries", "sequence", "integer", "boolean", "choice", "text")
        self._original = {name: getattr(Node, name) for name in methods}

    def __enter__(self) -> _Recording:
        for name in self._original:
            setattr(Node, name, self._recorded(name))
        return self

    def __exit__(self, *_exception) -> None:
        for name, method in self._original.items():
            setattr(Node, name, method)

    def _recorded(self, name: str):
        def method(node: Node, *arguments, **named):
            value = node.report.document.value
            kind = value.get("kind") if isinstance(value, dict) else None
            if kind in KINDS:
                path = _path(node.path)
                self.fields[kind][path].add(_words(name, arguments, named))
                if name == "mapping":
                    for key in arguments[0] if arguments else named["known"]:
                        self.fields[kind][f"{path}.{key}".lstrip(".")].update()
            return self._original[name](node, *arguments, **named)

        return method


def _path(path: tuple) -> str:
    return "".join("[]" if isinstance(part, int) else f".{_general(part)}" for part in path).lstrip(".")


def _general(part: str) -> str:
    """Return a field's name without what it has of the object that it names."""
    return f"{EGRESS}NAMESPACE" if part.startswith(EGRESS) else part


def _words(name: str, arguments: tuple, named: dict) -> str:
    limits = [*arguments, *named.values()]
    if name == "choice":
        return "one of " + ", ".join(f"`{value}`" for value in tuple(limits[0]))
    if name == "integer":
        return f"number from {limits[0]} to {limits[1]}"
    words = {
        "mapping": "mapping",
        "entries": "mapping with free keys",
        "sequence": "list",
        "boolean": "true or false",
        "text": "text",
    }[name]
    given = dict(zip(("least", "most"), arguments, strict=False)) | named
    bounds = [f"at {side} {given[side]}" for side in ("least", "most") if given.get(side)]
    if name in ("sequence", "text") and bounds:
        words += f" of {' and '.join(bounds)}"
    return words


def _files() -> list[Path]:
    found = [path for folder in MANIFESTS for path in sorted((ROOT / folder).rglob("*.yml")) if _is_manifest(path)]
    return [*found, EXAMPLE]


def _is_manifest(path: Path) -> bool:
    return "group_vars" not in path.parts and path.name not in ("hosts.yml", "control.yml")


def recorded_fields() -> dict[str, Fields]:
    """Return the fields of each kind, with how they were read."""
    with _Recording() as recording:
        for path in _files():
            read_manifests([(path.name, path.read_text(encoding="utf-8"))])
    return recording.fields


def kinds_page() -> str:
    """Return the page of fields in Markdown."""
    fields = recorded_fields()
    parts = [_HEAD]
    for name, kind in KINDS.items():
        scope = "in a namespace" if kind.namespaced else "for all namespaces"
        rows = "".join(
            f"| `{path}` | {_type(path, read, fields)} | {_described(name, path)} |\n"
            for path, read in sorted(fields[name].items())
            if _shown(path)
            if path
            and path not in _COMMON
            and "abels." not in path
            and path.removeprefix("metadata.") not in _SERVER_FIELDS
        )
        head = f"## {name}\n\n`apiVersion: {' or '.join(kind.api_versions)}`, {scope}."
        parts.append(f"{head}\n\n| field | value | meaning |\n|---|---|---|\n{rows}")
    return "\n".join(parts)


def described_fields() -> tuple[list[str], list[str]]:
    """Return the fields without a description, and the descriptions without a field."""
    missing, used = [], set()
    for name, paths in recorded_fields().items():
        for path in filter(_shown, paths):
            place = _place(name, path)
            if place:
                used.add(place)
            elif not path.endswith("[]"):
                missing.append(f"{name}: {path}")
    given = {(kind, end) for kind, entries in _descriptions().items() for end in entries}
    return missing, sorted(f"{kind}: {end}" for kind, end in given - used)


@functools.cache
def _descriptions() -> dict[str, dict[str, str]]:
    return yaml.safe_load(DESCRIPTIONS.read_text(encoding="utf-8"))


def _place(kind: str, path: str) -> tuple[str, str] | None:
    """Return where the description of a field is: that of its kind, with the longest end of its path."""
    parts = path.split(".")
    ends = [".".join(parts[number:]) for number in range(len(parts))]
    given = _descriptions()
    return next(((name, end) for name in (kind, EVERY_KIND) for end in ends if end in given.get(name, ())), None)


def _described(kind: str, path: str) -> str:
    place = _place(kind, path)
    return _descriptions()[place[0]][place[1]] if place else "One of them."


def _shown(path: str) -> bool:
    """Return whether a field is one of the kind's; labels and what an API server adds are not."""
    return bool(path) and "abels." not in path and path.removeprefix("metadata.") not in _SERVER_FIELDS


def mistakes_page() -> str:
    """Return the page of messages in Markdown."""
    parts = [_MISTAKES]
    for name, lines in sorted(_messages().items()):
        parts.append(f"## {name}\n\n" + "".join(f"- `{line}`\n" for line in lines))
    return "\n".join(parts)


def _type(path: str, read: set[str], fields: dict[str, Fields]) -> str:
    """Return how a field is read; one that no manifest has, as the field of the same name and parent elsewhere."""
    end = ".".join(path.split(".")[-2:])
    read = read or {
        words
        for kind in fields.values()
        for other, found in kind.items()
        if f".{other}".endswith(f".{end}")
        for words in found
    }
    # A choice is read as text first.
    exact = {words for words in read if words.startswith("one of")}
    return " or ".join(sorted(exact or read)) or "any"


def _messages() -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for text in sorted((ROOT / "tests" / "golden" / "errors").glob("*.txt")):
        documents = [value for value in _safe(text.with_suffix(".yml")) if isinstance(value, dict)]
        for line in text.read_text(encoding="utf-8").splitlines():
            _place, separator, rule = line.partition("): ")
            kind = next((name for name in KINDS if f", {name} " in _place), None)
            if separator and kind and documents and rule not in found[kind] and "`" not in rule:
                found[kind].append(rule)
    return found


def _safe(path: Path) -> list:
    try:
        return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
    except yaml.YAMLError:
        return []
