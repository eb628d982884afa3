# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Text output of the progress callback: failures, results, tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

# Lines of a program's output shown with a failure; the log has all of them.
OUTPUT_LINES = 40
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-_])")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def clean(text: object) -> str:
    """Return text without terminal control sequences, which a host's output may contain; lines and tabs stay."""
    return _CONTROLS.sub("", _ESCAPES.sub("", str(text).replace("\r\n", "\n")))


def duration(seconds: float) -> str:
    """Return seconds as minutes and seconds, `1:05`."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def failure_text(result: dict) -> str:
    """Return why a task failed: its message, that of each failed item, and the end of what a program printed.

    `result` was sanitised by Ansible: output hidden by no_log is not in it, only a note that it is hidden.
    """
    if "censored" in result:
        return clean(result["censored"])
    items = [item for item in result.get("results") or () if isinstance(item, dict) and item.get("failed")]
    if items:
        return "\n".join(f"{_label(item)}: {failure_text(item)}" for item in items)
    lines = [clean(result.get("msg", "")).strip()]
    outputs = [
        clean(result.get(name) or "").rstrip() for name in ("stderr", "module_stderr", "stdout", "module_stdout")
    ]
    output = next(filter(None, outputs), "").splitlines()
    if len(output) > OUTPUT_LINES:
        lines.append(f"(the last {OUTPUT_LINES} of {len(output)} lines)")
    lines += output[-OUTPUT_LINES:]
    return "\n".join(filter(None, lines)) or "it failed without a message"


def _label(item: dict) -> str:
    label = item.get("_ansible_item_label", item.get("item", ""))
    return "(item hidden)" if item.get("_ansible_no_log") else clean(label)


def indented(text: str, by: str = "  ") -> str:
    """Return text with every line indented."""
    return "\n".join(f"{by}{line}".rstrip() for line in text.splitlines())


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Return rows as lines: the first column to the left, figures to the right."""
    texts = [[str(cell) for cell in row] for row in (head, *rows)]
    widths = [max(len(row[column]) for row in texts) for column in range(len(head))]
    return [
        "  ".join(
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in texts
    ]


def joined(names: Sequence[str], most: int = 4) -> str:
    """Return names in a line, or their number when there are many."""
    return " ".join(names) if len(names) <= most else f"{len(names)} hosts"


def number(count: int, what: str) -> str:
    """Return a count with its noun, `1 host` or `3 hosts`."""
    return f"{count} {what}{'' if count == 1 else 's'}"
