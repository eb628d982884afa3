# SPDX-License-Identifier: Apache-2.0
"""Validation errors as data: their location in the manifests and the rule."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

_PLAIN_FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,62}")
_LONGEST_SHOWN_TEXT = 60


@dataclass(frozen=True)
class Source:
    """A location in the manifests: file, number of the document in it (from 1), line in the file (from 1).

    Without a manifest, document and line are 0; for a file that cannot be read as manifests, the document is.
    """

    file: str
    document: int
    line: int

    def __str__(self) -> str:
        return f"{_one_line(self.file)}:{self.line} (document {self.document})"


@dataclass(frozen=True)
class Problem:
    """One mistake in one manifest: the rule that is broken, and what to write instead."""

    source: Source
    resource: str
    path: str
    rule: str
    remedy: str = ""

    def __str__(self) -> str:
        document = f"document {self.source.document}" if self.source.document else ""
        parts = ", ".join(part for part in (document, self.resource) if part)
        place = f" ({parts})" if parts else ""
        path = f"{self.path}: " if self.path else ""
        remedy = f"; {self.remedy}" if self.remedy else ""
        line = f":{self.source.line}" if self.source.line else ""
        return f"{_one_line(self.source.file)}{line}{place}: {path}{self.rule}{remedy}"


def show(value) -> str:
    """A value for a message: always one short line, whatever the input was."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if value is None:
        return "nothing"
    if isinstance(value, str) and len(value) > _LONGEST_SHOWN_TEXT:
        value = value[:_LONGEST_SHOWN_TEXT] + "..."
    return json.dumps(value)


def path_text(path: tuple) -> str:
    """``("spec", "subnets", 0)`` as ``spec.subnets[0]``; keys that are no plain word are quoted."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _PLAIN_FIELD.fullmatch(part):
            text += f".{part}" if text else part
        else:
            text += f"[{show(part)}]"
    return text


def _one_line(text: str) -> str:
    return text if text.isprintable() else json.dumps(text)[1:-1]
