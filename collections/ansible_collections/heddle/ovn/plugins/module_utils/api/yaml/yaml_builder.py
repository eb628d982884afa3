# SPDX-License-Identifier: Apache-2.0
"""Builds one document from YAML events, with the line of every field, and rejects features that manifests do not need.

PyYAML's own constructors lose the lines, take the last of two equal keys, and recurse without a limit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..problem import path_text, show
from .yaml_scalars import plain_value

MAXIMUM_DEPTH = 32
_PLAIN_TAGS = frozenset([None, "!", "tag:yaml.org,2002:str", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"])
# Neither JSON in UTF-8 nor OVSDB can hold these.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_NO_KEY = object()


@dataclass(frozen=True)
class Mistake:
    """A mistake in the text itself, before its fields are read."""

    line: int
    path: str
    rule: str
    remedy: str


class RefusedError(Exception):
    """A mistake that makes the rest of the document meaningless."""

    def __init__(self, mistake: Mistake):
        super().__init__(mistake.rule)
        self.mistake = mistake


@dataclass
class ExpansionBudget:
    """How many characters aliases may still add to one file; stops a "billion laughs" file."""

    left: int

    def spend(self, size: int) -> bool:
        self.left -= size
        return self.left >= 0


class _Frame:
    """A mapping or list that is being filled."""

    def __init__(self, container, path: tuple, anchor):
        self.container = container
        self.path = path
        self.anchor = anchor
        self.key = _NO_KEY
        self.key_line = 0
        self.size = 1
        self.height = 1


class DocumentBuilder:
    """Fed with the node events of one document; afterwards ``value``, ``lines`` and ``mistakes`` describe it."""

    def __init__(self, line: int, budget: ExpansionBudget):
        self.line = line
        self.value = None
        self.lines: dict[tuple, int] = {}
        self.mistakes: list[Mistake] = []
        self._budget = budget
        self._anchors: dict[str, tuple] = {}
        self._frames: list[_Frame] = []

    def scalar(self, event, line: int) -> None:
        """Add a scalar, as a key or as a value."""
        self._check_tag(event, line)
        if _UNSTORABLE.search(event.value):
            self._refuse(line, "text contains a character that cannot be stored", "remove NUL and surrogate characters")
        plain = event.tag is None and event.implicit[0]
        value = plain_value(event.value) if plain else event.value
        size = 1 + len(event.value)
        if event.anchor is not None:
            self._anchors[event.anchor] = (value, size, 0)
        if self._expects_key():
            self._take_key(value, event.value, line, plain)
        else:
            self._place(value, line)
        self._grow(size)

    def alias(self, event, line: int) -> None:
        """Add the value that an anchor of this document names."""
        if event.anchor not in self._anchors:
            self._refuse(
                line, f"alias {show('*' + event.anchor)} names no complete value before it", "write the value out"
            )
        value, size, height = self._anchors[event.anchor]
        if not self._budget.spend(size):
            self._refuse(line, "aliases make this file too large", "write the values out")
        self._check_depth(height, line)
        if self._expects_key():
            self._take_key(value, show(value), line, False)
        else:
            self._place(value, line)
        self._grow(size, height)

    def start(self, container, event, line: int) -> None:
        """Open a mapping or list."""
        self._check_tag(event, line)
        self._check_depth(1, line)
        if self._expects_key():
            self._refuse(line, f"a key must be text, not {show(container)}", "")
        path = self._place(container, line)
        self._frames.append(_Frame(container, path, event.anchor))

    def end(self) -> None:
        """Close the innermost mapping or list. Only now may an alias name it, so nothing contains itself."""
        frame = self._frames.pop()
        if frame.anchor is not None:
            self._anchors[frame.anchor] = (frame.container, frame.size, frame.height)
        self._grow(frame.size, frame.height)

    def _expects_key(self) -> bool:
        return bool(self._frames) and isinstance(self._frames[-1].container, dict) and self._frames[-1].key is _NO_KEY

    def _take_key(self, value, text: str, line: int, plain: bool) -> None:
        frame = self._frames[-1]
        if plain and text == "<<":
            self._refuse(line, "merge keys (<<) are not supported", "write the fields out")
        if not isinstance(value, str):
            self._note(line, frame.path, f"a key must be text, not {show(value)}", "put quotes around it")
        frame.key = value if isinstance(value, str) else text
        frame.key_line = line

    def _place(self, value, line: int) -> tuple:
        """Put the value into the innermost container and return its path."""
        if not self._frames:
            self.value, self.line, self.lines[()] = value, line, line
            return ()
        frame = self._frames[-1]
        if isinstance(frame.container, list):
            path = (*frame.path, len(frame.container))
            frame.container.append(value)
            self.lines[path] = line
            return path
        path = (*frame.path, frame.key)
        if frame.key in frame.container:
            self._note(
                frame.key_line,
                path,
                f"key {show(frame.key)} is already set on line {self.lines[path]}",
                "keep one of them",
            )
            # A duplicate key: the first value stays, this one is only parsed to its end.
            path = (*path, "duplicate")
        else:
            frame.container[frame.key] = value
        self.lines[path] = frame.key_line
        frame.key = _NO_KEY
        return path

    def _grow(self, size: int, height: int = 0) -> None:
        """Add what was placed to the size and height of the innermost container."""
        if self._frames:
            frame = self._frames[-1]
            frame.size += size
            frame.height = max(frame.height, height + 1)

    def _check_depth(self, height: int, line: int) -> None:
        """Aliases may not nest deeper than the text itself."""
        if len(self._frames) + height > MAXIMUM_DEPTH:
            self._refuse(line, f"nested deeper than {MAXIMUM_DEPTH} levels", "no manifest needs that")

    def _check_tag(self, event, line: int) -> None:
        if event.tag not in _PLAIN_TAGS:
            path = self._frames[-1].path if self._frames else ()
            self._note(line, path, f"YAML tag {show(event.tag)} is not supported", "remove the tag")

    def _note(self, line: int, path: tuple, rule: str, remedy: str) -> None:
        self.mistakes.append(Mistake(line, path_text(path), rule, remedy))

    def _refuse(self, line: int, rule: str, remedy: str):
        path = path_text(self._frames[-1].path) if self._frames else ""
        raise RefusedError(Mistake(line, path, rule, remedy))
