# SPDX-License-Identifier: Apache-2.0
"""One color per network, the same in all pictures and tables."""

from __future__ import annotations

from dataclasses import dataclass

# Distinguishable with color vision deficiency (after Okabe and Ito, darkened for text on white).
_HUES = ("#0072b2", "#c0392b", "#00805f", "#8e5aa8", "#b8720a", "#2f6f8f", "#a8456f", "#5f7a1f", "#4b5bb5", "#8a5a3c")
_DEFAULT = "#5f6c7b"

GOOD, QUIET, BAD, UNKNOWN = "#1b7f5a", "#eef1f4", "#c81e1e", "#f3c34b"


@dataclass(frozen=True)
class Color:
    """A network's color: `strong` for lines and text, `soft` for areas."""

    strong: str
    soft: str


def mixed(color: str, amount: float) -> str:
    """Return a color mixed with white; `amount` is the part of the color, 0 to 1."""
    parts = [int(color[index : index + 2], 16) for index in (1, 3, 5)]
    return "#" + "".join(f"{round(255 - (255 - part) * amount):02x}" for part in parts)


def network_colors(plan: dict) -> dict[str, Color]:
    """Return a color for each network; the default one is gray."""
    colors = {}
    for network, described in plan["networks"].items():
        identifier = described["id"]
        strong = _HUES[(identifier - 1) % len(_HUES)] if identifier else _DEFAULT
        colors[network] = Color(strong, mixed(strong, 0.12))
    return colors


def primary_network(workload: dict) -> str:
    """Return the network that a workload's own traffic takes."""
    return next(one["network"] for one in workload["interfaces"] if one["role"] == "primary")
