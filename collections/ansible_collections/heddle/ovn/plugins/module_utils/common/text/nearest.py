# SPDX-License-Identifier: Apache-2.0
"""The known word that a misspelt one probably stands for."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_LONGEST_COMPARED_NAME = 64
# Letters of a beginning that is enough to find a word.
_LEAST_BEGINNING = 3


def nearest(name: str, known: Iterable[str]) -> str:
    """A remedy that names the most similar known word, or nothing."""
    word = nearest_word(name, known)
    return f"did you mean {word}?" if word else ""


def nearest_word(name: str, known: Iterable[str]) -> str | None:
    """The most similar known word, whatever its case, or None."""
    if len(name) > _LONGEST_COMPARED_NAME:
        return None
    by_lower_case = {word.lower(): word for word in known}
    begun = [word for word in by_lower_case if word.startswith(name.lower())]
    if len(begun) == 1 and len(name) >= _LEAST_BEGINNING:
        return by_lower_case[begun[0]]
    close = difflib.get_close_matches(name.lower(), by_lower_case, n=1, cutoff=0.6)
    return by_lower_case[close[0]] if close else None
