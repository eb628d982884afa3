# SPDX-License-Identifier: Apache-2.0
"""Parts of an HTML page."""

from __future__ import annotations

from html import escape

from .colors import BAD, GOOD

_STYLE = "border-collapse: collapse; font-size: 13px; margin: 4px 0 16px"
_HEAD = "text-align: left; padding: 4px 14px 4px 0; border-bottom: 2px solid #1f2933; white-space: nowrap"
_CELL = "text-align: left; padding: 3px 14px 3px 0; border-bottom: 1px solid #e4e7eb; vertical-align: top"


def table(head: list[str], rows: list[list[str]]) -> str:
    """Return an HTML table; the cells are HTML already."""
    top = "".join(f'<th style="{_HEAD}">{escape(cell)}</th>' for cell in head)
    body = "".join("<tr>" + "".join(f'<td style="{_CELL}">{cell}</td>' for cell in row) + "</tr>" for row in rows)
    return f'<table style="{_STYLE}"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>'


def result_box(title: str, passed: bool, lines: list[str]) -> str:
    """Return a headline with the result, and lines under it."""
    color, word = (GOOD, "passed") if passed else (BAD, "failed")
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    headline = f'{escape(title)}: <span style="color: {color}">{word}</span>'
    return f'<p style="font-size: 16px"><b>{headline}</b></p><ul>{items}</ul>'


def scaled(svg: str) -> str:
    """Return an SVG document that is never wider than the page."""
    return svg.replace("<svg ", '<svg style="max-width: 100%; height: auto" ', 1)


def document(title: str, body: str) -> str:
    """Return an HTML page; the body is HTML already."""
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title></head>'
        f'<body style="font-family: Helvetica, Arial, sans-serif; margin: 24px">{body}</body></html>\n'
    )
