# SPDX-License-Identifier: Apache-2.0
"""Parts of an HTML page."""

from __future__ import annotations

from html import escape

from .colors import BAD, GOOD

_STYLE = "border-collapse: collapse; font-size: 13px; margin: 4px 0 16px"
_HEAD = "text-align: left; padding: 4px 14px 4px 0; border-bottom: 2px solid #7b8794; white-space: nowrap"
_CELL = "text-align: left; padding: 3px 14px 3px 0; border-bottom: 1px solid #7b879455; vertical-align: top"


def table(head: list[str], rows: list[list[str]]) -> str:
    """Return an HTML table; the cells are HTML already."""
    top = "".join(f'<th style="{_HEAD}">{escape(cell)}</th>' for cell in head)
    body = "".join("<tr>" + "".join(f'<td style="{_CELL}">{cell}</td>' for cell in row) + "</tr>" for row in rows)
    return f'<table style="{_STYLE}"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>'


def badge(word: str, color: str) -> str:
    """Return a word on a color, readable on light and dark pages."""
    return (
        f'<span style="background: {color}; color: #ffffff; padding: 1px 8px; border-radius: 9px; font-weight: 600">'
        f"{escape(word)}</span>"
    )


def result_box(title: str, passed: bool, lines: list[str]) -> str:
    """Return a headline with the result, and lines under it."""
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    headline = f"{escape(title)}: {badge('passed', GOOD) if passed else badge('failed', BAD)}"
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
