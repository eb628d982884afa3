# SPDX-License-Identifier: Apache-2.0
"""The known word that a misspelt one probably stands for."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_LONGEST_COMPARED_NAME = 64


def nearest(name: str, known: Iterable[str]) -> str:
    """A remedy that names the most similar known word, or nothing."""
    word = nearest_word(name, known)
    return f"did you mean {word}?" if word else ""


def nearest_word(name: str, known: Iterable[str]) -> str | None:
    """The most similar known word, whatever its case, or None."""
    if len(name) > _LONGEST_COMPARED_NAME:
        return None
    by_lower_case = {word.lower(): word for word in known}
    close = difflib.get_close_matches(name.lower(), by_lower_case, n=1, cutoff=0.6)
    return by_lower_case[close[0]] if close else None
