# SPDX-License-Identifier: Apache-2.0
"""One network as OVN has it: switches, routers, ports, workloads, addresses, tunnel keys. Its hosts are the columns."""

from __future__ import annotations

from ansible_collections.heddle.ovn.plugins.plugin_utils.pages.colors import Color, mixed, network_colors
from ansible_collections.heddle.ovn.plugins.plugin_utils.pages.svg import FAINT, INK, Drawing

from .collection import NodeNetwork, attachments, naming, nodes_of, plain

COLUMN, GAP, LEFT = 360, 26, 36
BOX = 78
MOST_WORKLOADS = 6


def logical(plan: dict, network: str) -> str:
    """Return the picture of a network as SVG."""
    described = plan["networks"][network]
    drawing = Drawing(f"Logical topology of {network}")
    color = network_colors(plan)[network]
    attached = attachments(plan).get(network, [])
    views = [NodeNetwork(plan, network, node, attached) for node in nodes_of(plan, network)]
    _title(drawing, network, described, color)
    if not views:
        drawing.text(LEFT, 96, "on no host, because no workload uses it", size=12, color=FAINT)
        return drawing.svg()
    y = _DRAWN[described["topology"]](drawing, views, color)
    for number, view in enumerate(views):
        _workloads(drawing, view, _left(number), y, color)
    return drawing.svg()


def _left(number: int) -> float:
    return LEFT + number * (COLUMN + GAP)


def _wide(views: list[NodeNetwork]) -> float:
    return len(views) * COLUMN + (len(views) - 1) * GAP


def _title(drawing: Drawing, network: str, described: dict, color: Color) -> None:
    drawing.dot(LEFT + 8, 30, 8, color.strong)
    drawing.text(LEFT + 26, 36, network, size=19, bold=True)
    facts = [
        f"network id {described['id']}",
        f"{described['topology']} {described['role'].lower()}",
        f"MTU {described['mtu']}",
        "subnets " + ", ".join(described["subnets"]),
        "namespaces " + (", ".join(described["namespaces"]) or "all without a primary network of their own"),
    ]
    drawing.text(LEFT + 26, 58, "  ·  ".join(facts), size=12, color=FAINT)


def _element(
    drawing: Drawing,
    x: float,
    y: float,
    width: float,
    kind: str,
    name: str,
    lines: list[str],
    color: Color,
    *,
    router: bool,
) -> float:
    """Draw a switch (square) or router (round) with its name and lines; returns its lower edge."""
    height = 44 + 16 * len(lines)
    fill = mixed(color.strong, 0.2) if router else color.soft
    drawing.box(x, y, width, height, fill=fill, stroke=color.strong, radius=18 if router else 4, thick=1.6)
    drawing.text(x + 14, y + 17, kind, size=10.5, color=color.strong, bold=True, width=width - 20)
    drawing.text(x + 14, y + 34, name, size=12.5, bold=True, width=width - 28)
    for number, line in enumerate(lines):
        drawing.text(x + 14, y + 52 + 16 * number, line, size=11, mono=True, width=width - 28)
    return y + height


def _key(number: int) -> str:
    return f"tunnel key {number} (0x{number:x})"


def _layer2(drawing: Drawing, views: list[NodeNetwork], color: Color) -> float:
    """Gateway routers, the transit router and the switch, each of the latter two in all zones."""
    view = views[0]
    keys = view.network["tunnel_keys"]
    y = 84.0
    if view.is_primary:
        lower = max(_gateway_router(drawing, one, _left(number), y, COLUMN, color) for number, one in enumerate(views))
        y = lower + 62
        for number, one in enumerate(views):
            _joint(
                drawing,
                _left(number) + COLUMN / 2,
                lower,
                y,
                [_addresses(one.transit_pairs(), 1), _addresses(one.transit_pairs(), 0)],
                color,
            )
        gateways = "gateway " + "  ".join(view.gateway_interfaces())
        name = naming.transit_router(view.name)
        lower = _element(
            drawing,
            LEFT,
            y,
            _wide(views),
            f"TRANSIT ROUTER, IN EVERY ZONE  ·  {_key(keys[1])}",
            name,
            [gateways],
            color,
            router=True,
        )
        y = lower + 34
        drawing.line(LEFT + _wide(views) / 2, lower, LEFT + _wide(views) / 2, y, color=color.strong, thick=2)
    kind = f"SWITCH, IN EVERY ZONE  ·  {_key(keys[0])}"
    lower = _element(
        drawing,
        LEFT,
        y,
        _wide(views),
        kind,
        naming.layer2_switch(view.name),
        ["  ".join(view.subnets())],
        color,
        router=False,
    )
    return lower


def _localnet(drawing: Drawing, views: list[NodeNetwork], color: Color) -> float:
    """The physical network, and in each column a switch that leads to it."""
    view = views[0]
    vlan = view.network["vlan"]
    tag = f"VLAN {vlan}" if vlan else "untagged"
    name = view.network["physical_network"]
    top = _element(drawing, LEFT, 84, _wide(views), "PHYSICAL NETWORK", name, [tag], color, router=False)
    lowest = 0.0
    for number, one in enumerate(views):
        x, y = _left(number), top + 34
        drawing.line(x + COLUMN / 2, top, x + COLUMN / 2, y, color=color.strong, thick=2)
        lines = ["  ".join(one.subnets())]
        name = naming.localnet_switch(one.name)
        lowest = max(lowest, _element(drawing, x, y, COLUMN, "SWITCH", name, lines, color, router=False))
    return lowest


def _layer3(drawing: Drawing, views: list[NodeNetwork], color: Color) -> float:
    """The transit switch, which is in all zones, and in each column the routers and the switch of a host."""
    view = views[0]
    kind = f"TRANSIT SWITCH, IN EVERY ZONE  ·  {_key(view.network['tunnel_keys'][0])}"
    subnets = "  ".join(view.network["transit_subnets"])
    top = _element(
        drawing, LEFT, 84, _wide(views), kind, naming.transit_switch(view.name), [subnets], color, router=False
    )
    lowest = 0.0
    for number, one in enumerate(views):
        x, y = _left(number), top + 58
        _joint(drawing, x + COLUMN / 2, top, y, ["  ".join(one.transit_interfaces())], color)
        name = naming.cluster_router(one.name)
        lower = _element(drawing, x, y, COLUMN, "ROUTER OF THIS ZONE", name, [], color, router=True)
        if one.is_primary:
            aside = lower + 46
            _joint(drawing, x + COLUMN * 0.75, lower, aside, ["join switch"], color)
            _gateway_router(drawing, one, x + COLUMN / 2 + 6, aside, COLUMN / 2 - 6, color)
        switch = lower + 46
        drawing.line(x + COLUMN * 0.22, lower, x + COLUMN * 0.22, switch, color=color.strong, thick=2)
        width = COLUMN / 2 - 6 if one.is_primary else COLUMN
        lines = one.gateway_interfaces()
        lowest = max(
            lowest,
            _element(
                drawing,
                x,
                switch,
                width,
                "SWITCH AND GATEWAY",
                naming.node_switch(one.name, one.node),
                lines,
                color,
                router=False,
            ),
        )
    return lowest


_DRAWN = {"Layer2": _layer2, "Layer3": _layer3, "Localnet": _localnet}


def _gateway_router(drawing: Drawing, view: NodeNetwork, x: float, y: float, width: float, color: Color) -> float:
    lines = [f"join {address}" for address in map(plain, view.join_interfaces())]
    name = naming.gateway_router(view.name, view.node)
    return _element(drawing, x, y, width, "GATEWAY ROUTER", name, lines, color, router=True)


def _addresses(pairs: list[tuple[str, str]], side: int) -> str:
    return "  ".join(pair[side] for pair in pairs)


def _joint(drawing: Drawing, x: float, top: float, bottom: float, labels: list[str], color: Color) -> None:
    """Draw a line with what its ends are called beside it, from top to bottom."""
    drawing.line(x, top, x, bottom, color=color.strong, thick=2)
    for number, label in enumerate(labels):
        y = (top + bottom) / 2 + 4 + (number - (len(labels) - 1) / 2) * 22
        drawing.text(x + 8, y, label, size=10.5, mono=True, color=INK)


def _workloads(drawing: Drawing, view: NodeNetwork, x: float, top: float, color: Color) -> None:
    here = [(workload, interface) for workload, interface in view.workloads if workload["node"] == view.node]
    open_ones = [pair for pair in here if pair[1]["role"] != "infrastructure-locked"]
    locked = len(here) - len(open_ones)
    y = top + 40
    drawing.text(x + COLUMN, top + 20, view.node, size=13, bold=True, anchor="end", color=FAINT)
    if open_ones:
        drawing.line(
            x + 22,
            top,
            x + 22,
            y + min(len(open_ones), MOST_WORKLOADS) * (BOX + 10) - 10 - BOX / 2,
            color=color.strong,
            thick=2,
        )
    for workload, interface in open_ones[:MOST_WORKLOADS]:
        drawing.line(x + 22, y + BOX / 2, x + 44, y + BOX / 2, color=color.strong, thick=2)
        _box(drawing, x + 44, y, COLUMN - 44, workload, interface, color)
        y += BOX + 10
    if len(open_ones) > MOST_WORKLOADS:
        drawing.text(x + 44, y + 12, f"and {len(open_ones) - MOST_WORKLOADS} more workloads", size=11.5, color=FAINT)
        y += 22
    if not here:
        drawing.text(x + 44, y + 12, "no workloads", size=11, color=FAINT)
    if locked:
        drawing.text(x + 44, y + 12, f"{locked} locked ports (primary network is another)", size=11, color=FAINT)


def _box(drawing: Drawing, x: float, y: float, width: float, workload: dict, interface: dict, color: Color) -> None:
    drawing.box(x, y, width, BOX, stroke=color.strong, radius=6)
    name = f"{workload['namespace']}/{workload['name']}"
    drawing.text(x + 12, y + 18, name, size=12.5, bold=True, width=width * 0.52)
    beside = interface["name"]
    if interface["tunnel_id"] is not None:
        beside += f" · port key {interface['tunnel_id']}"
    drawing.text(x + width - 12, y + 18, beside, size=10.5, color=FAINT, anchor="end")
    for number, address in enumerate(interface["addresses"]):
        drawing.text(x + 12, y + 36 + 15 * number, address, size=11, mono=True, width=width - 24)
    drawing.text(x + 12, y + BOX - 9, interface["mac"], size=10.5, mono=True, color=FAINT)
