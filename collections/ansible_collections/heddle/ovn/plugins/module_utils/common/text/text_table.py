# SPDX-License-Identifier: Apache-2.0
"""Tables and lists for a terminal, as lines of text. Pure."""

from __future__ import annotations

MOST_LINES = 100


def table(title: str, head: list[str], rows: list[list]) -> list[str]:
    """Return the lines of a table whose columns are as wide as their content; numbers are right-aligned."""
    cells = [head, *[[str(cell) for cell in row] for row in rows]]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    right = [bool(rows) and all(isinstance(row[column], int) for row in rows) for column in range(len(head))]
    lines = [
        "  ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(row, widths, right, strict=True)
        )
        for row in cells
    ]
    return [title, *("  " + line.rstrip() for line in lines), ""]


def shortened(title: str, lines: list[str]) -> list[str]:
    """Return lines under a title, limited in number; nothing when there are none."""
    if not lines:
        return []
    more = [f"  ... and {len(lines) - MOST_LINES} more"] if len(lines) > MOST_LINES else []
    return [f"{title} ({len(lines)})", *("  " + line for line in lines[:MOST_LINES]), *more, ""]
