# SPDX-License-Identifier: Apache-2.0
"""The path of an external packet: through OVN's switches and routers, then through the provider bridge."""

from __future__ import annotations

import re

from ansible_collections.heddle.ovn.plugins.plugin_utils.pages.colors import network_colors
from ansible_collections.heddle.ovn.plugins.plugin_utils.pages.svg import FAINT, Drawing

from .path import COLUMN, LEFT, TOP, _column, _height, _hop
from .trace import Leg, read_traces

_TABLE = re.compile(r"^\s*(\d+)\. (.*)$")
_RESULT = re.compile(r"^Datapath actions: (.*)$", re.MULTILINE)


def logical_leg(host: dict) -> Leg:
    """Return the output of ovn-trace as hops."""
    packet = host["egress"]
    return read_traces(f"== {packet['title']}\n-- on {host['node']}\n{packet['logical']}")[0].legs[0]


def bridge_steps(host: dict) -> list[str]:
    """Return the lines of ofproto/trace with the matching flows and their actions."""
    steps = []
    for line in host["egress"]["physical"].splitlines():
        found = _TABLE.match(line)
        if found:
            steps.append(f"{found[1]}: {found[2]}")
        elif steps and line.startswith("    ") and line.strip() and not line.strip().startswith("->"):
            steps.append(f"     {line.strip()}")
        elif line.startswith(("Final flow", "Megaflow")):
            break
    return steps


def datapath_actions(host: dict) -> str:
    """Return the final datapath actions; empty when unknown."""
    found = _RESULT.search(host["egress"]["physical"])
    return found[1] if found else ""


def egress(plan: dict, host: dict) -> str:
    """Return the picture as SVG."""
    packet = host["egress"]
    drawing = Drawing(f"External path of {packet['title']}")
    color = network_colors(plan)[packet["network"]]
    drawing.dot(LEFT + 8, 30, 8, color.strong)
    drawing.text(LEFT + 26, 36, packet["title"].split(" (")[0], size=19, bold=True)
    drawing.text(
        LEFT + 26,
        58,
        f"TCP in {packet['network']} on {host['node']}: ovn-trace, then ofproto/trace",
        size=12.5,
        color=FAINT,
    )
    steps = bridge_steps(host)
    lines = [
        *steps[:14],
        *([f"and {len(steps) - 14} more"] if len(steps) > 14 else []),
        f"=>   {datapath_actions(host)}",
    ]
    boxes = [*(_hop(hop) for hop in logical_leg(host).hops), ("BRIDGE", packet["bridge"], lines, None)]
    _column(drawing, LEFT, TOP - 40 + _height(boxes), boxes, color, down=True)
    drawing.width = max(drawing.width, LEFT + COLUMN)
    return drawing.svg()
