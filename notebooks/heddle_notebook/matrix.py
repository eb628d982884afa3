# SPDX-License-Identifier: Apache-2.0
"""Reachability as a table of colors."""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.heddle.ovn.plugins.plugin_utils.pages.colors import (
    BAD,
    GOOD,
    QUIET,
    UNKNOWN,
    Color,
    mixed,
    network_colors,
    primary_network,
)
from ansible_collections.heddle.ovn.plugins.plugin_utils.pages.svg import FAINT, INK, RULE, Drawing, width_of

CELL, HEAD = 34, 20
FILLS = {"+": mixed(GOOD, 0.75), ".": QUIET, "!": BAD, "?": UNKNOWN, "-": "#ffffff"}
LEGEND = (
    ("+", "reaches, as it must (slowest answer in ms)"),
    (".", "silent, as it must"),
    ("!", "wrong"),
    ("?", "not tested"),
)


def matrix(plan: dict, verify: dict, within: Sequence[str] = ()) -> str:
    """Return the table of all workloads, or those of some namespaces, as SVG; rows send, columns answer."""
    drawing = Drawing("Who reaches whom")
    colors = network_colors(plan)
    shown = [name for name in plan["workloads"] if not within or name.partition("/")[0] in within]
    names = sorted(shown, key=lambda name: (_network_id(plan, name), name))
    place = {name: number for number, name in enumerate(verify["workloads"])}
    slowest = _slowest(verify)
    label = max((width_of(name, 12) for name in names), default=0)
    left, top = 40 + label + HEAD, 84 + label * 0.75 + HEAD
    drawing.text(24, 34, "Who reaches whom", size=19, bold=True)
    counts = verify["counts"]
    subtitle = (
        f"{counts['pairs']} addresses asked: {counts['reached']} reached, {counts['isolated']} silent as they must be, "
        f"{counts['failed']} wrong, {counts['not tested']} not tested"
    )
    if within:
        subtitle = f"of all, {subtitle}"
    if not verify["matrix"]:
        subtitle += "; a report of so many workloads does not say which"
    drawing.text(24, 56, subtitle, size=12.5, color=FAINT)
    for number, name in enumerate(names):
        color = colors[primary_network(plan["workloads"][name])]
        _label(drawing, left + number * CELL, top, left, top + number * CELL, name, color)
        for column, target in enumerate(names):
            x, y = left + column * CELL, top + number * CELL
            symbol = verify["matrix"][name][place[target]] if verify["matrix"] else " "
            drawing.box(
                x,
                y,
                CELL - 2,
                CELL - 2,
                fill=FILLS.get(symbol, "#ffffff"),
                stroke="none",
                radius=4,
                hint=f"{name} → {target}",
            )
            slow = slowest.get((name, target), 0.0)
            text = f"{slow:.2g}" if slow < 9.5 else f"{slow:.0f}"
            text = text if symbol == "+" else {"!": "✗", "?": "?"}.get(symbol, "")
            ink = "#ffffff" if symbol in "+!" else INK
            drawing.text(x + CELL / 2 - 1, y + CELL / 2 + 3.5, text, size=10.5, bold=True, color=ink, anchor="middle")
    _groups(drawing, plan, names, left, top, colors)
    _legend(drawing, 24, top + len(names) * CELL + 22)
    return drawing.svg()


def _network_id(plan: dict, name: str) -> int:
    return plan["networks"][primary_network(plan["workloads"][name])]["id"]


def _slowest(verify: dict) -> dict[tuple[str, str], float]:
    slowest: dict[tuple[str, str], float] = {}
    for pair in verify["pairs"]:
        key = (pair["source"], pair["target"])
        slowest[key] = max(slowest.get(key, 0.0), pair["milliseconds"] or 0.0)
    return slowest


def _label(drawing: Drawing, x: float, top: float, left: float, y: float, name: str, color: Color) -> None:
    drawing.box(x, top - 10, CELL - 2, 6, fill=color.strong, stroke="none", radius=2)
    drawing.text(x + CELL / 2, top - 16, name, size=12, turn=-48)
    drawing.box(left - 10, y, 6, CELL - 2, fill=color.strong, stroke="none", radius=2)
    drawing.text(left - 16, y + CELL / 2 + 3, name, size=12, anchor="end")
    drawing.width = max(drawing.width, x + CELL / 2 + width_of(name, 12) * 0.7)


def _groups(drawing: Drawing, plan: dict, names: list[str], left: float, top: float, colors: dict[str, Color]) -> None:
    """Name the networks at the right end of their rows, and rule them off."""
    right = left + len(names) * CELL
    start = 0
    while start < len(names):
        network = primary_network(plan["workloads"][names[start]])
        end = start
        while end < len(names) and primary_network(plan["workloads"][names[end]]) == network:
            end += 1
        y = top + start * CELL
        if start:
            drawing.line(left, y - 1, right, y - 1, color=RULE, thick=1)
            drawing.line(
                left + start * CELL - 1, top, left + start * CELL - 1, top + len(names) * CELL, color=RULE, thick=1
            )
        drawing.text(
            right + 12, (y + top + end * CELL) / 2 + 3, network, size=12, bold=True, color=colors[network].strong
        )
        start = end


def _legend(drawing: Drawing, x: float, y: float) -> None:
    for symbol, text in LEGEND:
        drawing.box(x, y, 14, 14, fill=FILLS[symbol], stroke="none", radius=3)
        drawing.text(x + 20, y + 11.5, text, size=12, color=FAINT)
        x += 44 + width_of(text, 12)
