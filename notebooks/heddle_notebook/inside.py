# SPDX-License-Identifier: Apache-2.0
"""One host from inside: bridges, patch ports, VRFs, and their connections, as read from the host."""

from __future__ import annotations

import re

from ansible_collections.heddle.ovn.plugins.plugin_utils.pages.colors import Color, network_colors
from ansible_collections.heddle.ovn.plugins.plugin_utils.pages.svg import FAINT, INK, RULE, Drawing

from .collection import naming

LINE, HEAD, GAP, LEFT, TOP = 22, 54, 190, 40, 96
MOST_PORTS = 24


def inside(plan: dict, host: dict) -> str:
    """Return the picture of a host as SVG: kernel, integration bridge and provider bridge side by side."""
    drawing = Drawing(f"Inside {host['node']}")
    drawing.text(24, 34, f"Inside {host['node']}", size=19, bold=True)
    subtitle = f"{host['mode'] or 'no'} gateway mode; as read from the host; colors are the networks'"
    drawing.text(24, 56, subtitle, size=12.5, color=FAINT)
    colors = network_colors(plan)
    found = {bridge["name"]: bridge for bridge in host["bridges"]}
    provider = next((name for name in found if _is_provider(found[name])), "")
    middle = _bridge(drawing, LEFT + 430, found.get("br-int"), plan, colors, host)
    right = _bridge(drawing, LEFT + 430 + 380 + GAP, found.get(provider), plan, colors, host)
    left = _kernel(drawing, plan, host, colors)
    for name, (x, y) in middle.items():
        if name in left:
            drawing.path(_curve(left[name], (x - 380, y)), color=_color(plan, colors, name).strong, thick=1.6)
    peers = {port["name"]: port["peer"] for bridge in host["bridges"] for port in bridge["ports"] if port["peer"]}
    for name, (x, y) in middle.items():
        end = right.get(peers.get(name, ""))
        if end:
            drawing.path(_curve((x, y), (end[0] - 380, end[1])), color=_color(plan, colors, name).strong, thick=1.6)
    return drawing.svg()


def _is_provider(bridge: dict) -> bool:
    patched = any(port["type"] == "patch" for port in bridge["ports"])
    return bridge["name"] != naming.INTEGRATION_BRIDGE and patched


def _curve(start: tuple[float, float], end: tuple[float, float]) -> str:
    between = (start[0] + end[0]) / 2
    return f"M{start[0]:g} {start[1]:g} C{between:g} {start[1]:g} {between:g} {end[1]:g} {end[0]:g} {end[1]:g}"


def _color(plan: dict, colors: dict[str, Color], port: str) -> Color:
    """Return the color of the network that a port belongs to by its name, black when it belongs to none."""
    for network in sorted(plan["networks"], key=len, reverse=True):
        described = plan["networks"][network]
        # OVN's names have dots where a network's has hyphens.
        if network in port or network.replace("-", ".") in port or port == naming.management_interface(described["id"]):
            return colors[network]
    return colors["default"] if port.startswith(("patch-br", "ovn-k8s-mp0")) else Color(FAINT, "#f4f5f7")


def _bridge(drawing: Drawing, x: float, bridge: dict | None, plan: dict, colors: dict, host: dict) -> dict:
    """Draw a bridge and its ports; returns the right end of each port's line."""
    if bridge is None:
        return {}
    patches = [port for port in bridge["ports"] if port["type"] == "patch"]
    others = [port for port in bridge["ports"] if port["type"] != "patch" and port["name"] != bridge["name"]]
    shown = [*patches, *others][:MOST_PORTS]
    more = len(patches) + len(others) - len(shown)
    height = HEAD + LINE * (len(shown) + bool(more)) + 8
    drawing.box(x, TOP, 380, height, fill="#fbfcfd", stroke=INK, radius=10, thick=1.6)
    drawing.text(x + 14, TOP + 22, bridge["name"], size=14, bold=True)
    flows = f"{sum(host['flows'].values())} flows, " if _is_provider(bridge) else ""
    drawing.text(
        x + 14, TOP + 40, f"{flows}{len(bridge['ports'])} ports, datapath {bridge['datapath']}", size=11, color=FAINT
    )
    ends = {}
    for number, port in enumerate(shown):
        y = TOP + HEAD + LINE * number
        color = _color(plan, colors, port["name"])
        drawing.box(x + 8, y, 364, LINE - 4, fill=color.soft, stroke=color.strong, radius=4, thick=0.8)
        drawing.text(x + 16, y + 13, f"{port['name']}", size=10.5, mono=True, width=290)
        drawing.text(x + 364, y + 13, port["type"], size=10, color=FAINT, anchor="end")
        ends[port["name"]] = (x + 380, y + LINE / 2 - 2)
    if more:
        drawing.text(x + 16, TOP + HEAD + LINE * len(shown) + 14, f"and {more} more", size=11, color=FAINT)
    return ends


def _kernel(drawing: Drawing, plan: dict, host: dict, colors: dict) -> dict:
    """Draw the main table and VRFs with their interfaces; returns the right end of each interface."""
    members = {name for vrf in host["vrfs"] for name in vrf["members"]}
    main = [
        name for name in host["addresses"] if name not in members and name not in {one["name"] for one in host["vrfs"]}
    ]
    groups = [
        ("main table", main, "the host's own"),
        *((vrf["name"], vrf["members"], f"VRF, table {vrf['table']}") for vrf in host["vrfs"]),
    ]
    ends, y = {}, TOP
    for title, names, kind in groups:
        lines = sum(1 + len(host["addresses"].get(name, [])) for name in names)
        height = HEAD - 8 + LINE * max(lines, 1)
        drawing.box(
            LEFT, y, 300, height, fill="#fbfcfd", stroke=INK if title == "main table" else RULE, radius=10, thick=1.4
        )
        drawing.text(LEFT + 14, y + 20, title, size=13, bold=True, width=180)
        drawing.text(LEFT + 286, y + 20, kind, size=10.5, color=FAINT, anchor="end")
        row = y + 34
        for name in names:
            color = _color(plan, colors, name)
            drawing.dot(LEFT + 18, row + 8, 4, color.strong)
            drawing.text(LEFT + 30, row + 12, name, size=11.5, bold=True, mono=True, width=250)
            ends[name] = (LEFT + 300, row + 8)
            for address in host["addresses"].get(name, []):
                row += LINE - 6
                drawing.text(LEFT + 44, row + 12, address, size=10.5, mono=True, width=240)
            row += LINE
        y += height + 14
    return ends


_MARK = re.compile(r"mark=(\d+)")
_TUPLE = re.compile(r"orig=\(src=([^,]+),dst=([^,]+)(?:,sport=(\d+))?(?:,dport=(\d+))?[^)]*\)")
_REPLY = re.compile(r"reply=\(src=([^,]+),dst=([^,]+)(?:,sport=(\d+))?(?:,dport=(\d+))?[^)]*\)")
_ZONE = re.compile(r"zone=(\d+)")


def connections(plan: dict, host: dict) -> list[dict]:
    """Return the tracked connections of the provider bridge that belong to a user-defined network, one dictionary each.

    `network`, `protocol`, `zone`, `mark`, `seen` (source as the bridge got it), `sent` (what it became) and `to`.
    """
    by_mark = {3 + one["id"]: name for name, one in plan["networks"].items() if one["id"]}
    found = []
    for line in host["conntrack"]:
        mark, zone, original, reply = (pattern.search(line) for pattern in (_MARK, _ZONE, _TUPLE, _REPLY))
        network = by_mark.get(int(mark[1])) if mark else None
        if network and zone and zone[1] == "64000" and original and reply:
            found.append(
                {
                    "network": network, "protocol": line.split(",")[0], "zone": zone[1], "mark": hex(int(mark[1])),
                    "seen": _socket(original[1], original[3]), "sent": _socket(reply[2], reply[4]),
                    "to": _socket(original[2], original[4]),
                }
            )  # fmt: skip
    return sorted(found, key=lambda one: (one["to"], one["protocol"], one["network"], one["seen"]))


def _socket(address: str, port: str | None) -> str:
    return address if port is None else f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def pair_of(plan: dict, host: dict) -> list[dict]:
    """Return the connections of the overlapping pair, a few of each network."""
    wanted = [network for _workload, network, _address in host["pair"]]
    rows = connections(plan, host)
    return [row for network in wanted for row in [one for one in rows if one["network"] == network][:6]]
