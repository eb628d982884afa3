# SPDX-License-Identifier: Apache-2.0
"""Address pools as a picture: which host has which block."""

from __future__ import annotations

from ansible_collections.heddle.ovn.plugins.plugin_utils.pages.colors import QUIET, network_colors
from ansible_collections.heddle.ovn.plugins.plugin_utils.pages.svg import FAINT, Drawing

_CELL, _COLUMNS, _MOST, _LEFT = 22, 32, 256, 24
POOL, NODE, RESERVED = "coil.cybozu.com/pool", "coil.cybozu.com/node", "coil.cybozu.com/reserved"


def of_kind(content: dict, kind: str) -> list[dict]:
    """Return the objects of a kind, of a status."""
    return [one for one in content["objects"].values() if one["kind"] == kind]


def pools(content: dict) -> str:
    """Return the blocks of each pool as SVG, in the colors of their hosts."""
    colors = network_colors({"networks": content["nodes"]})
    drawing = Drawing("Address pools")
    drawing.text(_LEFT, 34, "Address pools", size=19, bold=True)
    y = 62.0
    for pool in of_kind(content, "AddressPool"):
        y = _pool(drawing, y, pool, of_kind(content, "AddressBlock"), colors)
    x = float(_LEFT)
    for name in content["nodes"]:
        drawing.box(x, y, 14, 14, fill=colors[name].strong, stroke="none", radius=3)
        drawing.text(x + 20, y + 12, name, size=12)
        x += 120
    drawing.box(x, y, 14, 14, fill=QUIET, stroke="none", radius=3)
    drawing.text(x + 20, y + 12, "free", size=12)
    return drawing.svg()


def _pool(drawing: Drawing, y: float, pool: dict, blocks: list[dict], colors: dict) -> float:
    """Draw one pool and return where the next one begins."""
    name, status = pool["metadata"]["name"], pool["status"]
    subnets = " ".join(text for entry in pool["spec"]["subnets"] for _family, text in sorted(entry.items()))
    used = f"{status['allocatedBlocks']} of {status['maxBlocks']} blocks, {status['allocatedAddresses']} addresses"
    drawing.text(_LEFT, y, name, size=14, bold=True)
    drawing.text(_LEFT, y + 18, f"{used}; {subnets}", size=12, color=FAINT)
    owners = {
        block["index"]: block for block in blocks if block["metadata"].get("labels", {}).get(POOL) == name
    }  # fmt: skip
    shown = min(status["maxBlocks"], _MOST)
    top = y + 30
    for number in range(shown):
        block = owners.get(number)
        labels = block["metadata"]["labels"] if block else {}
        owner = labels.get(NODE) or ("reserved" if RESERVED in labels else "free")
        ranges = " ".join(str(block[family]) for family in ("ipv4", "ipv6") if block and block.get(family))
        drawing.box(
            _LEFT + number % _COLUMNS * _CELL, top + number // _COLUMNS * _CELL, _CELL - 3, _CELL - 3,
            fill=colors[owner].strong if owner in colors else FAINT if block else QUIET, stroke="none", radius=3,
            hint=f"block {number}: {owner} {ranges}".strip(),
        )  # fmt: skip
    bottom = top + -(-shown // _COLUMNS) * _CELL
    if status["maxBlocks"] > shown:
        drawing.text(_LEFT, bottom + 14, f"and {status['maxBlocks'] - shown} more blocks", size=12, color=FAINT)
        bottom += 18
    return bottom + 34
