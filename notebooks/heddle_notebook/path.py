# SPDX-License-Identifier: Apache-2.0
"""A packet's way as a sequence: down on the sender's host, through the tunnel, up on the receiver's."""

from __future__ import annotations

import re

from ansible_collections.heddle.ovn.plugins.plugin_utils.pages.colors import Color, mixed, network_colors
from ansible_collections.heddle.ovn.plugins.plugin_utils.pages.svg import FAINT, INK, Drawing

from .trace import Hop, Leg, Trace

COLUMN, BETWEEN, LEFT, TOP = 380, 230, 40, 130
LINE, STEP = 16, 34
_TITLE = re.compile(r"^(\S+) -> (\S+) \(network (\S+), (\S+) -> (\S+)\)$")


def path(plan: dict, trace: Trace) -> str:
    """Return the picture of a traced packet as SVG."""
    drawing = Drawing(f"Path of {trace.title}")
    source, target, network, sender, receiver = _TITLE.match(trace.title).groups()
    color = network_colors(plan)[network]
    drawing.dot(LEFT + 8, 30, 8, color.strong)
    drawing.text(LEFT + 26, 36, f"{source} → {target}", size=19, bold=True)
    drawing.text(LEFT + 26, 58, f"UDP {sender} → {receiver} in {network}, as ovn-trace sees it", size=12.5, color=FAINT)
    columns = [
        _boxes(leg, end, ahead)
        for leg, end, ahead in zip(trace.legs, ((source, sender), (target, receiver)), (True, False), strict=True)
    ]
    bottom = TOP + max(_height(boxes) for boxes in columns)
    tops = []
    for number, (leg, boxes) in enumerate(zip(trace.legs, columns, strict=True)):
        x = LEFT + number * (COLUMN + BETWEEN)
        drawing.box(
            x - 16, TOP - 44, COLUMN + 32, bottom - TOP + 64, fill="#fbfcfd", stroke=INK, radius=12, dashed=True
        )
        drawing.text(x, TOP - 20, leg.node, size=15, bold=True)
        tops.append(_column(drawing, x, bottom, boxes, color, down=number == 0))
    _tunnel(drawing, plan, trace, network, tops)
    return drawing.svg()


def _boxes(leg: Leg, end: tuple[str, str], ahead: bool) -> list[tuple[str, str, list[str], bool | None]]:
    """Return kind, name, lines and is_router of each box from top to bottom; the receiver's host is read upwards."""
    workload = ("WORKLOAD", end[0], [end[1]], None)
    hops = [_hop(hop) for hop in leg.hops]
    return [workload, *hops] if ahead else [workload, *reversed(hops)]


def _hop(hop: Hop) -> tuple[str, str, list[str], bool | None]:
    kind = ("ROUTER" if hop.is_router else "SWITCH") + f"  ·  {hop.stages} stages"
    lines = [f"in  {hop.inport}", f"out {hop.outport or 'nowhere'}"]
    return kind, hop.datapath, lines + [f"+   {change}" for change in hop.changes], hop.is_router


def _box_height(box: tuple) -> float:
    return 46 + LINE * len(box[2])


def _height(boxes: list[tuple]) -> float:
    return sum(map(_box_height, boxes)) + STEP * (len(boxes) - 1)


def _column(drawing: Drawing, x: float, bottom: float, boxes: list[tuple], color: Color, *, down: bool) -> float:
    """Draw a host's boxes so that the last one stands on `bottom`; returns the middle of that one."""
    y = bottom - _height(boxes)
    middle = y
    for number, box in enumerate(boxes):
        kind, name, lines, is_router = box
        height = _box_height(box)
        fill = "#ffffff" if is_router is None else mixed(color.strong, 0.2 if is_router else 0.1)
        drawing.box(x, y, COLUMN, height, fill=fill, stroke=color.strong, radius=18 if is_router else 5, thick=1.6)
        drawing.text(x + 16, y + 18, kind, size=10.5, bold=True, color=color.strong)
        drawing.text(x + 16, y + 35, name, size=12.5, bold=True, width=COLUMN - 32)
        for index, line in enumerate(lines):
            drawing.text(x + 16, y + 54 + LINE * index, line, size=11, mono=True, width=COLUMN - 32)
        if number:
            ends = (y - STEP, y) if down else (y, y - STEP)
            drawing.line(x + COLUMN / 2, ends[0], x + COLUMN / 2, ends[1], arrow=True, thick=1.8)
        middle = y + height / 2
        y += height + STEP
    return middle


def _tunnel(drawing: Drawing, plan: dict, trace: Trace, network: str, middles: list[float]) -> None:
    left, right = LEFT + COLUMN, LEFT + COLUMN + BETWEEN
    y = max(middles)
    drawing.path(f"M{left:g} {y:g} L{right:g} {y:g}", arrow=True, thick=2.4, dashed=True)
    key = plan["networks"][network]["tunnel_keys"][0]
    ends = [plan["nodes"][leg.node]["encap_ips"][0] for leg in trace.legs]
    for line, text in ((-24, "Geneve"), (-9, f"VNI {key} (0x{key:x})"), (18, f"{ends[0]} →"), (33, ends[1])):
        drawing.text(
            (left + right) / 2, y + line, text, size=11.5, anchor="middle", bold=line == -24, mono=line > 0, halo=True
        )
