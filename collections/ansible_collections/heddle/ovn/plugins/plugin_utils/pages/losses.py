# SPDX-License-Identifier: Apache-2.0
"""Losses over time, beside the steps that were taken."""

from __future__ import annotations

from .colors import BAD, QUIET, UNKNOWN
from .svg import FAINT, INK, RULE, Drawing

_LEFT, _TOP, _WIDTH, _ROW, _GAP = 150.0, 150.0, 1000.0, 56.0, 22.0
_BY_MOVES = "#8fa3b5"
# Bars are so wide at least that one lost packet is seen.
_COLUMNS = 250
_TENTHS = 10
LANES = (
    ("east-west", "udp", "packets lost"), ("east-west", "long tcp", "lines stuck"),
    ("north-south", "udp", "packets lost"), ("north-south", "new tcp", "connections failed"),
    ("north-south", "long tcp", "lines stuck"),
    ("by egress ip", "udp", "packets lost"), ("by egress ip", "new tcp", "connections failed"),
    ("by egress ip", "long tcp", "lines stuck"), ("to join address", "icmp", "echoes lost"),
    ("to service", "new tcp", "connections without an answer"),
    ("to node port", "new tcp", "connections without an answer"),
    ("to load balancer", "new tcp", "connections without an answer"),
    ("by egress service", "udp", "packets lost"), ("by egress service", "new tcp", "connections failed"),
    ("comparison", "udp", "packets lost where nothing changes"),
)  # fmt: skip


def losses(traffic: dict, steps: list[dict]) -> str:
    """Return a picture with a lane for each kind of traffic; losses of moved workloads have another color."""
    drawing = Drawing("Losses over time, beside the steps")
    began, seconds = traffic["began"], max(1.0, traffic["ended"] - traffic["began"])
    scale = _WIDTH / seconds
    lanes = [lane for lane in LANES if any(_is_of(flow, lane) for flow in traffic["flows"])]
    bottom = _TOP + len(lanes) * (_ROW + _GAP)
    _steps(drawing, [(step["step"], step["nodes"], (step["time"] - began) * scale) for step in steps], bottom)
    for number, lane in enumerate(lanes):
        flows = [flow for flow in traffic["flows"] if _is_of(flow, lane)]
        _lane(drawing, lane, flows, began, seconds, _TOP + number * (_ROW + _GAP))
    _axis(drawing, seconds, scale, bottom)
    drawing.text(_LEFT, 24, "Losses over time", size=16, bold=True)
    for x, color, text in ((_LEFT, BAD, "lost"), (_LEFT + 70, _BY_MOVES, "lost while an end of the flow was moved")):
        drawing.box(x, 36, 12, 12, fill=color, stroke=color, radius=2)
        drawing.text(x + 18, 46, text, color=FAINT)
    return drawing.svg()


def _is_of(flow: dict, lane: tuple[str, str, str]) -> bool:
    return (flow["kind"], flow["protocol"]) == lane[:2]


def _steps(drawing: Drawing, marks: list[tuple[str, list[str], float]], bottom: float) -> None:
    """Draw a line for each step, its name slanted above it; names that would lie on each other are moved on."""
    free = -100.0
    for name, nodes, x in marks:
        at = max(x, free)
        free = at + 15
        drawing.path(f"M{_LEFT + x:g} {_TOP - 6:g} L{_LEFT + x:g} {bottom:g}", color=RULE, thick=1)
        drawing.path(f"M{_LEFT + at:g} {_TOP - 18:g} L{_LEFT + x:g} {_TOP - 6:g}", color=RULE, thick=1)
        drawing.text(_LEFT + at, _TOP - 20, " ".join([name, *nodes]), size=11, turn=-50)


def _lane(drawing: Drawing, lane: tuple, flows: list[dict], began: float, seconds: float, top: float) -> None:
    kind, protocol, what = lane
    drawing.box(_LEFT, top, _WIDTH, _ROW, fill=QUIET, stroke=QUIET, radius=0)
    drawing.text(_LEFT - 10, top + 16, kind, bold=True, anchor="end")
    drawing.text(_LEFT - 10, top + 32, f"{protocol}, {len(flows)} flows", size=11, color=FAINT, anchor="end")
    columns = {key: _columns(flows, key, began, seconds) for key in ("losses", "losses_by_moves")}
    highest = max([*columns["losses"], *columns["losses_by_moves"]])
    wide = _WIDTH / _COLUMNS
    for place in range(_COLUMNS):
        foot = top + _ROW
        for key, color in (("losses_by_moves", _BY_MOVES), ("losses", BAD)):
            if count := columns[key][place]:
                high = max(2.0, count / (2 * highest) * _ROW)
                foot -= high
                hint = f"{place * seconds / _COLUMNS:.1f} s: {count} {what}"
                drawing.box(
                    _LEFT + place * wide, foot, wide, high, fill=color, stroke=color, radius=0, thick=0, hint=hint
                )
    for reset in (reset for flow in flows for reset in flow["resets"]):
        drawing.dot(_LEFT + (reset[0] - began) / seconds * _WIDTH, top + 6, 3, _BY_MOVES if reset[2] else UNKNOWN)
    counts = [sum(columns[key]) for key in ("losses", "losses_by_moves")]
    text = f"{counts[0]} {what}" + (f" + {counts[1]} in moves" if counts[1] else "")
    drawing.text(_LEFT + _WIDTH + 10, top + 16, text, size=11, color=BAD if counts[0] else INK)
    if any(flow["resets"] for flow in flows):
        resets = [moved for flow in flows for _time, _why, moved in flow["resets"]]
        text = f"{len(resets) - sum(resets)} resets + {sum(resets)} by moves"
        drawing.text(_LEFT + _WIDTH + 10, top + 32, text, size=11, color=FAINT)


def _columns(flows: list[dict], key: str, began: float, seconds: float) -> list[int]:
    columns = [0] * _COLUMNS
    for flow in flows:
        for number, count in flow[key].items():
            place = int((int(number) / _TENTHS - began) / seconds * _COLUMNS)
            columns[min(max(place, 0), _COLUMNS - 1)] += count
    return columns


def _axis(drawing: Drawing, seconds: float, scale: float, bottom: float) -> None:
    step = next((one for one in (1, 2, 5, 10, 20, 30, 60, 120, 300) if seconds / one <= 15), 600)
    for time in range(0, int(seconds) + 1, step):
        drawing.text(_LEFT + time * scale, bottom + 8, f"{time} s", size=11, color=FAINT, anchor="middle")
