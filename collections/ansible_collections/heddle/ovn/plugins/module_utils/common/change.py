# SPDX-License-Identifier: Apache-2.0
"""The changes that an engine made, or would make: one list for `--check`, `--diff` and the report.

Needs nothing but the standard library; the text of a diff is YAML written by `render`, sorted, so that equal states
give equal text. Values under keys that name a secret are not shown.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

ACTIONS = ("create", "update", "delete")
HIDDEN = "(hidden)"
_SECRET = re.compile(r"(^|[-_])(psk|password|passwd|secret|token|private[-_]key)$", re.IGNORECASE)
_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./-]*\Z")
_NOT_TEXT = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}


@dataclass(frozen=True, slots=True)
class Change:
    """One object before and after; `update` has only the fields that differ.

    `substrate` is where (a database, the kernel, ...), `kind` what (a table, a link, ...), `network` whose ("" for
    objects common to all networks).
    """

    substrate: str
    action: str
    kind: str
    name: str
    network: str
    before: Mapping
    after: Mapping

    def __str__(self):
        network = f" (network {self.network})" if self.network else ""
        return f"{self.action} {self.substrate} {self.kind} {self.name}{network}"


@dataclass(frozen=True, slots=True)
class Foreign:
    """A foreign object: found in scope, not Heddle's, and not changed."""

    substrate: str
    kind: str
    name: str
    identity: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one run of an engine. `a + b` is the result of both.

    `refused`: (network, reason) for networks that could not be written, wholly or in part, while the others were.
    `notes`: what the operator should know and act on, one line each, although nothing failed; each of them once.
    """

    changes: tuple[Change, ...] = ()
    foreign: tuple[Foreign, ...] = field(default=())
    refused: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def changed(self):
        """True when something was written, or would be in check mode."""
        return bool(self.changes)

    def __add__(self, other):
        return Outcome(
            self.changes + other.changes,
            self.foreign + other.foreign,
            self.refused + other.refused,
            tuple(dict.fromkeys(self.notes + other.notes)),
        )

    def summary(self):
        """How many objects were created, updated and deleted, and how many are foreign."""
        counts = Counter(change.action for change in self.changes)
        return {**{action: counts[action] for action in ACTIONS}, "foreign": len(self.foreign)}

    def diff(self):
        """Ansible's `diff` value: one entry per object with YAML text before and after."""
        return [
            {
                "before_header": f"{change.substrate} {change.kind} {change.name}",
                "after_header": str(change),
                "before": "" if change.action == "create" else render(change.before),
                "after": "" if change.action == "delete" else render(change.after),
            }
            for change in self.changes
        ]


def render(value):
    """YAML text of mappings, lists, sets and scalars: keys and sets sorted, other objects by their `str`."""
    return "".join(f"{line}\n" for line in _lines(value))


def _lines(value):
    if isinstance(value, Mapping) and value:
        for key in sorted(value, key=str):
            item = HIDDEN if _SECRET.search(str(key)) else value[key]
            yield from _entry(f"{_scalar(key)}:", item)
    elif isinstance(value, (list, tuple, set, frozenset)) and value:
        items = sorted(value, key=str) if isinstance(value, (set, frozenset)) else value
        for item in items:
            yield from _entry("-", item)
    else:
        yield _scalar(value)


def _entry(head, item):
    if isinstance(item, (Mapping, list, tuple, set, frozenset)) and item:
        yield head
        yield from (f"  {line}" for line in _lines(item))
    else:
        yield f"{head} {_scalar(item)}"


def _scalar(value):
    if isinstance(value, Mapping):
        return "{}"
    if isinstance(value, (list, tuple, set, frozenset)):
        return "[]"
    if isinstance(value, float):
        return re.sub(r"^(-?\d+)e", r"\1.0e", repr(value))  # without a point, YAML 1.1 takes it for text
    if value is None or isinstance(value, (bool, int)):
        return json.dumps(value)
    text = str(value)
    if _PLAIN.match(text) and text.lower() not in _NOT_TEXT:
        return text
    return '"' + "".join(map(_quoted, text)) + '"'


def _quoted(character):
    """A character in a double-quoted YAML scalar."""
    if character in '"\\':
        return f"\\{character}"
    return character if character.isprintable() else f"\\U{ord(character):08x}"
