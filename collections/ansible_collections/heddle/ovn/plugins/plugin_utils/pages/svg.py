# SPDX-License-Identifier: Apache-2.0
"""A small SVG writer: boxes, lines and text whose width is known well enough to lay it out."""

from __future__ import annotations

from xml.sax.saxutils import escape, quoteattr

SANS = "Helvetica, Arial, 'DejaVu Sans', sans-serif"
MONO = "'DejaVu Sans Mono', Menlo, Consolas, monospace"
INK, FAINT, RULE, PAPER = "#1f2933", "#62707f", "#cbd2d9", "#ffffff"


def width_of(text: str, size: float, *, mono: bool = False, bold: bool = False) -> float:
    """Return about how wide a text is; rather too much than too little."""
    return len(text) * size * (0.61 if mono else 0.67 if bold else 0.6)


def fitted(text: str, width: float, size: float, *, mono: bool = False, bold: bool = False) -> str:
    """Return the text, or as much of its ends as fits into the width."""
    if width_of(text, size, mono=mono, bold=bold) <= width:
        return text
    room = max(3, int(width / width_of("x", size, mono=mono, bold=bold)) - 1)
    head = (room + 1) // 2
    return f"{text[:head]}…{text[len(text) - (room - head) :]}"


class Drawing:
    """Shapes in the order in which they were added; later ones lie on top."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.shapes: list[str] = []
        self.width = 0.0
        self.height = 0.0

    def _reach(self, x: float, y: float) -> None:
        self.width, self.height = max(self.width, x), max(self.height, y)

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        *,
        fill: str = PAPER,
        stroke: str = RULE,
        radius: float = 8,
        thick: float = 1.2,
        dashed: bool = False,
        hint: str = "",
    ) -> None:
        """Add a rectangle with round corners; `hint` is shown under the mouse."""
        self._reach(x + width, y + height)
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        inner = f"<title>{escape(hint)}</title>" if hint else ""
        self.shapes.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{radius:g}" '
            f'fill="{fill}" stroke="{stroke}" stroke-width="{thick:g}"{dash}>{inner}</rect>'
        )

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float = 12,
        color: str = INK,
        bold: bool = False,
        mono: bool = False,
        anchor: str = "start",
        width: float | None = None,
        turn: float = 0,
        halo: bool = False,
    ) -> None:
        """Add one line of text with its baseline at `y`, cut to `width` if it is given."""
        shown = text if width is None else fitted(text, width, size, mono=mono, bold=bold)
        wide = width_of(shown, size, mono=mono, bold=bold)
        start = {"start": 0.0, "middle": 0.5, "end": 1.0}[anchor]
        if not turn:
            self._reach(x + wide * (1 - start), y + size * 0.4)
        inner = f"<title>{escape(text)}</title>" if shown != text else ""
        rotate = f' transform="rotate({turn:g} {x:g} {y:g})"' if turn else ""
        if halo:
            left = x - wide * start - 4
            self.shapes.append(
                f'<rect x="{left:g}" y="{y - size:g}" width="{wide + 8:g}" height="{size * 1.35:g}" fill="{PAPER}"/>'
            )
        self.shapes.append(
            f'<text x="{x:g}" y="{y:g}" font-family={quoteattr(MONO if mono else SANS)} font-size="{size:g}" '
            f'font-weight="{"bold" if bold else "normal"}" fill="{color}" text-anchor="{anchor}"{rotate}>'
            f"{inner}{escape(shown)}</text>"
        )

    def path(
        self, data: str, *, color: str = INK, thick: float = 1.5, dashed: bool = False, arrow: bool = False
    ) -> None:
        """Add a line along SVG path data."""
        dash = ' stroke-dasharray="6 4"' if dashed else ""
        head = ' marker-end="url(#arrow)"' if arrow else ""
        self.shapes.append(f'<path d="{data}" fill="none" stroke="{color}" stroke-width="{thick:g}"{dash}{head}/>')

    def line(self, x1: float, y1: float, x2: float, y2: float, **style) -> None:
        """Add a straight line."""
        self._reach(max(x1, x2), max(y1, y2))
        self.path(f"M{x1:g} {y1:g} L{x2:g} {y2:g}", **style)

    def dot(self, x: float, y: float, radius: float, color: str) -> None:
        """Add a filled circle."""
        self.shapes.append(f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}" fill="{color}"/>')

    def svg(self, margin: float = 24) -> str:
        """Return the document."""
        width, height = self.width + margin, self.height + margin
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
            f'viewBox="0 0 {width:g} {height:g}" role="img" aria-label={quoteattr(self.title)} '
            f"><title>{escape(self.title)}</title>"
            '<defs><marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
            f'orient="auto"><path d="M0 0 L10 5 L0 10 z" fill="{INK}"/></marker></defs>'
            f'<rect width="100%" height="100%" fill="{PAPER}"/>' + "\n".join(self.shapes) + "</svg>\n"
        )
