# SPDX-License-Identifier: Apache-2.0
"""Names for one line of a message. Pure."""

from __future__ import annotations

from collections.abc import Sequence


def some_of(names: Sequence[str], most: int = 3) -> str:
    """Return the first names, at most `most` of them, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
