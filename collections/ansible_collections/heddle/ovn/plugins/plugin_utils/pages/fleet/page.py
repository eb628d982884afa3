# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Puts the data, the style and the scripts of the page into one file."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from html import escape
from pathlib import Path

from .data import page_data

_PARTS = Path(__file__).resolve().parent
_SCRIPTS = ("format", "topology", "manifest", "overview", "table", "detail", "page")
# Inside a script element, a browser looks for these (HTML, 4.12.1.3): data must not end or nest it.
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


def fleet_page(directory: Path, texts: dict[str, str] | None = None) -> str:
    """Return the page of the results in a directory, as HTML; `texts` as for `page_data`."""
    data = page_data(directory, datetime.now(UTC), texts)
    parts = {
        "title": escape(f"Fleet {data['deployment']}".strip()),
        "style": _part("page.css"),
        "script": "\n".join(_part(f"{name}.js") for name in _SCRIPTS),
        "data": embedded(data),
    }
    page = _part("page.html")
    # The data comes last: its text may look like the name of a part.
    for name, text in parts.items():
        page = page.replace(f"%{name}%", text, 1)
    return page


def embedded(data: object) -> str:
    """Return data as JSON that is safe inside a script element."""
    text = json.dumps(data, separators=(",", ":"))
    for character, escaped in _ESCAPES.items():
        text = text.replace(character, escaped)
    return text


def _part(name: str) -> str:
    return (_PARTS / name).read_text(encoding="utf-8")
