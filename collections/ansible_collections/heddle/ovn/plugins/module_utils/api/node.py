# SPDX-License-Identifier: Apache-2.0
"""Reads the fields of a manifest; each mistake is recorded with its location, and reading continues.

Every reader returns ``None`` after it has noted a mistake, so a caller never reports the same thing twice.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..common.text.nearest import nearest, nearest_word
from .problem import Problem, Source, path_text, show
from .yaml.yaml_text import Document

# A document with more mistakes than this is no manifest; listing all of them would be useless.
_MOST_PROBLEMS_PER_DOCUMENT = 100
_TYPES = {dict: "a mapping", list: "a list", str: "text", int: "an integer", bool: "true or false"}


class Report:
    """Collects the problems of one document."""

    def __init__(self, file: str, document: Document, resource: str = ""):
        self.file = file
        self.document = document
        self.resource = resource
        self.problems: list[Problem] = []

    @property
    def full(self) -> bool:
        return len(self.problems) >= _MOST_PROBLEMS_PER_DOCUMENT

    def add(self, line: int, path: str, rule: str, remedy: str) -> None:
        """Note one mistake."""
        if self.full:
            return
        source = Source(self.file, self.document.number, line)
        self.problems.append(Problem(source, self.resource, path, rule, remedy))
        if self.full:
            rule = f"more than {_MOST_PROBLEMS_PER_DOCUMENT - 1} mistakes, the rest of this document is not shown"
            self.problems[-1] = Problem(source, self.resource, "", rule, "")

    def line_of(self, path: tuple) -> int:
        """The line of a field; for one that is not there, of what should hold it."""
        while path not in self.document.lines and path:
            path = path[:-1]
        return self.document.lines.get(path, self.document.line)


class Node:
    """A value in a document, with its path."""

    __slots__ = ("path", "report", "value")

    def __init__(self, value, path: tuple, report: Report):
        self.value = value
        self.path = path
        self.report = report

    def refuse(self, rule: str, remedy: str = "") -> None:
        """Note a mistake at this place."""
        self.report.add(self.report.line_of(self.path), path_text(self.path), rule, remedy)

    def child(self, key: str) -> Node:
        """An entry of this mapping, there or not."""
        return Node(self.value.get(key), (*self.path, key), self.report)

    def mapping(self, known: Iterable[str], remedies: dict[str, str] | None = None) -> Fields:
        """The fields of a mapping. A field that is not known is a mistake; ``remedies`` says more about some."""
        known = tuple(known)
        if not self._is(dict):
            return Fields(self, {}, known, excused=frozenset(known))
        return Fields(self, self.value, known, excused=_refuse_unknown(self, known, remedies or {}))

    def entries(self) -> list[tuple[str, Node]]:
        """The entries of a mapping whose keys are free, such as labels."""
        if not self._is(dict):
            return []
        return [(key, self.child(key)) for key in self.value]

    def sequence(self, least: int = 0, most: int | None = None) -> list[Node]:
        """The items of a list; surplus items are left out after the mistake is noted."""
        if isinstance(self.value, str):
            self.refuse(f"expected a list, got text {show(self.value)}", f"write [{show(self.value)}]")
            return []
        if not self._is(list):
            return []
        count = len(self.value)
        if count < least:
            self.refuse(f"Invalid value: {count}: {self.body} should have at least {least} items")
        if most is not None and count > most:
            self.refuse(f"Too many: {count}: must have at most {most} items")
        items = self.value[:most]
        return [Node(value, (*self.path, index), self.report) for index, value in enumerate(items)]

    def text(self, least: int = 0, most: int | None = None) -> str | None:
        """Text of a length. An unquoted number or boolean is none: YAML has already lost how it was written."""
        if isinstance(self.value, int | float):
            self.refuse(f"expected text, got {show(self.value)}", "put quotes around it")
            return None
        if not self._is(str):
            return None
        if len(self.value) < least:
            self.refuse(f"Invalid value: {show(self.value)}: {self.body} should be at least {least} chars long")
            return None
        if most is not None and len(self.value) > most:
            self.refuse(f"Too long: may not be more than {most} bytes", f"it has {len(self.value)}")
            return None
        return self.value

    def integer(self, least: int, most: int) -> int | None:
        """An integer between two limits, both included. As in JSON Schema, 1400.0 is an integer."""
        value = int(self.value) if isinstance(self.value, float) and self.value.is_integer() else self.value
        if value is self.value and not self._is(int):
            return None
        if value < least:
            self.refuse(f"Invalid value: {show(self.value)}: {self.body} should be greater than or equal to {least}")
            return None
        if value > most:
            self.refuse(f"Invalid value: {show(self.value)}: {self.body} should be less than or equal to {most}")
            return None
        return value

    def boolean(self) -> bool | None:
        """True or false."""
        return self.value if self._is(bool) else None

    def choice(self, values: Iterable[str], remedies: dict[str, str] | None = None) -> str | None:
        """One of a few words; ``remedies`` says more about some others."""
        values = tuple(values)
        text = self.text()
        if text is None or text in values:
            return text
        supported = ", ".join(show(value) for value in values)
        self.refuse(
            f"Unsupported value: {show(text)}: supported values: {supported}",
            (remedies or {}).get(text) or nearest(text, values),
        )
        return None

    @property
    def body(self) -> str:
        """How an API server names this field within its message."""
        return f"{path_text(self.path)} in body"

    def _is(self, wanted: type) -> bool:
        # In Python a bool is an int, in a manifest it is not.
        if isinstance(self.value, wanted) and not (wanted is int and isinstance(self.value, bool)):
            return True
        got = f"text {show(self.value)}" if isinstance(self.value, str) else show(self.value)
        self.refuse(f"expected {_TYPES[wanted]}, got {got}")
        return False


class Fields:
    """The known fields of a mapping. A field whose value is null counts as absent, as in Kubernetes."""

    def __init__(self, node: Node, values: dict, known: tuple[str, ...], excused: frozenset[str]):
        self.node = node
        self._values = values
        self._known = known
        self._excused = excused

    def has_known(self, name: str) -> bool:
        """Whether a field of this name may be written here."""
        return name in self._known

    def get(self, name: str) -> Node | None:
        """The field, or None; also None for what may not be written here, which is reported already."""
        if name not in self._known or self._values.get(name) is None:
            return None
        return self.place(name)

    def place(self, name: str) -> Node:
        """Where the field is or would be."""
        return Node(self._values.get(name), (*self.node.path, name), self.node.report)

    def require(self, name: str, remedy: str = "", rule: str = "Required value") -> Node | None:
        """The field; its absence is a mistake, unless another mistake explains it already."""
        if self._values.get(name) is None:
            if name not in self._excused:
                self.place(name).refuse(rule, remedy)
            return None
        return self.place(name)


def _refuse_unknown(node: Node, known: tuple[str, ...], remedies: dict[str, str]) -> frozenset[str]:
    """Note each unknown field; returns the known fields that were probably meant."""
    meant = set()
    for name in node.value:
        if name in known:
            continue
        if node.report.full:
            break
        word = nearest_word(name, known)
        if name in remedies:
            remedy = remedies[name]
        elif word:
            remedy = f"did you mean {word}?"
            meant.add(word)
        else:
            remedy = f"known fields are {', '.join(known)}"
        Node(None, (*node.path, name), node.report).refuse("unknown field", remedy)
    return frozenset(meant)
