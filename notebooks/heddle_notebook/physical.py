# SPDX-License-Identifier: Apache-2.0
"""The hosts, the segments that join them, the tunnels between them and the workloads on them."""

from __future__ import annotations

from itertools import combinations

from ansible_collections.heddle.ovn.plugins.plugin_utils.pages.colors import Color, network_colors, primary_network
from ansible_collections.heddle.ovn.plugins.plugin_utils.pages.svg import FAINT, INK, RULE, Drawing, width_of

BOX, GAP, LEFT = 330, 60, 40
HEAD, ROW = 74, 26
PROVIDER_Y, BOX_Y = 74, 168
MOST_ROWS, MOST_MESHED = 14, 6


def physical(plan: dict) -> str:
    """Return the picture as SVG."""
    drawing = Drawing("Physical topology")
    colors = network_colors(plan)
    nodes = list(plan["nodes"])
    on = {name: [key for key, one in plan["workloads"].items() if one["node"] == name] for name in nodes}
    rows = max((min(len(names), MOST_ROWS + 1) for names in on.values()), default=0)
    height = HEAD + 12 + max(1, rows) * ROW + 10
    right = LEFT + len(nodes) * BOX + (len(nodes) - 1) * GAP
    underlay = BOX_Y + height + 66
    drawing.text(LEFT, 34, f"Deployment “{plan['deployment']}”", size=19, bold=True)
    summary = f"{len(nodes)} hosts, {len(plan['networks'])} networks, {len(plan['workloads'])} workloads"
    drawing.text(LEFT, 54, summary, size=12.5, color=FAINT)
    _segment(drawing, PROVIDER_Y, right, "Provider segment", "the hosts' own addresses", "#fdf3e0", "#b8720a")
    _segment(drawing, underlay, right, "Underlay segment", "tunnels end here", "#e8f1fb", "#0072b2")
    middles = {}
    for number, name in enumerate(nodes):
        x = LEFT + number * (BOX + GAP)
        middles[name] = x + BOX / 2
        node = plan["nodes"][name]
        _wire(drawing, middles[name], PROVIDER_Y + 34, BOX_Y, node["addresses"], "#b8720a")
        _wire(drawing, middles[name], BOX_Y + height, underlay, node["encap_ips"], "#0072b2")
        _box(drawing, x, height, name, plan, on[name], colors)
    _tunnels(drawing, nodes, middles, underlay + 34)
    return drawing.svg()


def _segment(drawing: Drawing, y: float, right: float, name: str, what: str, fill: str, stroke: str) -> None:
    drawing.box(LEFT, y, right - LEFT, 34, fill=fill, stroke=stroke, radius=17)
    drawing.text(LEFT + 20, y + 22, name, size=13, bold=True, color=stroke)
    drawing.text(LEFT + 32 + width_of(name, 13, bold=True), y + 22, what, size=12, color=FAINT)


def _wire(drawing: Drawing, x: float, top: float, bottom: float, addresses: list[str], color: str) -> None:
    drawing.line(x, top, x, bottom, color=color, thick=2)
    for number, address in enumerate(addresses[:2]):
        drawing.text(
            x + 10, (top + bottom) / 2 + 4 + (number - (len(addresses[:2]) - 1) / 2) * 16, address, size=11.5, mono=True
        )


def _box(
    drawing: Drawing, x: float, height: float, name: str, plan: dict, workloads: list[str], colors: dict[str, Color]
) -> None:
    node = plan["nodes"][name]
    drawing.box(x, BOX_Y, BOX, height, fill="#fbfcfd", stroke=INK, radius=10, thick=1.4)
    drawing.text(x + 16, BOX_Y + 27, name, size=16, bold=True)
    drawing.text(x + BOX - 16, BOX_Y + 27, f"node id {node['id']}", size=11.5, color=FAINT, anchor="end")
    drawing.text(
        x + 16,
        BOX_Y + 47,
        f"chassis {node['chassis'] or 'not installed'}",
        size=11,
        mono=True,
        color=FAINT,
        width=BOX - 32,
    )
    drawing.text(x + 16, BOX_Y + 64, "an OVN zone of its own", size=11, color=FAINT)
    drawing.line(x, BOX_Y + HEAD, x + BOX, BOX_Y + HEAD, color=RULE, thick=1)
    for number, key in enumerate(workloads[:MOST_ROWS]):
        network = primary_network(plan["workloads"][key])
        y = BOX_Y + HEAD + 12 + number * ROW
        color = colors[network]
        drawing.box(x + 12, y, BOX - 24, ROW - 5, fill=color.soft, stroke=color.soft, radius=6)
        drawing.dot(x + 24, y + 10.5, 4.5, color.strong)
        drawing.text(x + 35, y + 14.5, key, size=11.5, bold=True, width=142)
        drawing.text(x + BOX - 20, y + 14.5, network, size=11, color=color.strong, anchor="end", width=128)
    if len(workloads) > MOST_ROWS:
        y = BOX_Y + HEAD + 12 + MOST_ROWS * ROW
        drawing.text(x + 35, y + 14.5, f"and {len(workloads) - MOST_ROWS} more", size=11.5, color=FAINT)
    if not workloads:
        drawing.text(x + 16, BOX_Y + HEAD + 28, "no workloads", size=11.5, color=FAINT)


def _tunnels(drawing: Drawing, nodes: list[str], middles: dict[str, float], y: float) -> None:
    """Every host with every other; one arc each, deeper the farther apart they are."""
    if len(nodes) > MOST_MESHED:
        drawing.text(LEFT, y + 30, f"Geneve tunnels between all {len(nodes)} hosts", size=12.5, color=FAINT)
        return
    for one, other in combinations(range(len(nodes)), 2):
        start, end = middles[nodes[one]], middles[nodes[other]]
        shift = 14 * (len(nodes) - 1 - (other - one))
        depth = 34 + 46 * (other - one)
        left, right = start + 8 + shift, end - 8 - shift
        drawing.path(
            f"M{left:g} {y:g} C{left:g} {y + depth:g} {right:g} {y + depth:g} {right:g} {y:g}",
            color="#0072b2",
            thick=2,
            dashed=True,
        )
        lowest = y + depth * 0.75
        label = f"Geneve {nodes[one]} ↔ {nodes[other]}"
        drawing.text((left + right) / 2, lowest + 4, label, size=11.5, color="#0072b2", anchor="middle", halo=True)
        drawing.height = max(drawing.height, lowest + 16)
