# SPDX-License-Identifier: Apache-2.0
"""What nft says of rules that it refuses, without the lines that it quotes."""

from __future__ import annotations

import re

# A line of a set has all its elements, which may be thousands.
_LONGEST = 200
_PLACE = re.compile(r"^[^:\n]*:(\d+):(\d+)-(\d+): (Error: .*)$", re.MULTILINE)


def refusal(rules: str, stderr: str) -> str:
    """Return each error with the rule, or where that is long the part of it, that it is about.

    nft prints FILE:LINE:FIRST-LAST: Error: TEXT, and then the whole line of the file (nft(8), "ERROR REPORTING").
    """
    lines = rules.splitlines()
    found = []
    for match in _PLACE.finditer(stderr):
        number, first, last = (int(match[group]) for group in (1, 2, 3))
        line = lines[number - 1] if number <= len(lines) else ""
        about = (line if len(line) <= _LONGEST else line[first - 1 : last]).strip()
        found.append(f"{match[4]}: {_shortened(about)}" if about else match[4])
    return "; ".join(dict.fromkeys(found)) or _shortened(stderr.strip())


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
