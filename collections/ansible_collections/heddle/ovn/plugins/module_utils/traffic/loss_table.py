# SPDX-License-Identifier: Apache-2.0
"""Traffic losses as tables for a terminal. Pure."""

from __future__ import annotations

from ..common.text.text_table import shortened, table
from .flows import (
    BY_EGRESS_IP,
    BY_SERVICE,
    COMPARISON,
    EAST_WEST,
    NORTH_SOUTH,
    TO_JOIN,
    TO_LOAD_BALANCER,
    TO_NODE_PORT,
    TO_SERVICE,
)

KINDS = (
    EAST_WEST, NORTH_SOUTH, BY_EGRESS_IP, BY_SERVICE, TO_JOIN, TO_SERVICE, TO_NODE_PORT, TO_LOAD_BALANCER, COMPARISON,
)  # fmt: skip


def traffic_table(report: dict) -> list[str]:
    """Return the sums by kind of flow and by step."""
    kinds = [
        [
            row["kind"], row["protocol"], f"IPv{row['family']}", row["sent"], row["lost"] - row["lost_by_moves"],
            f"{row['longest_gap']:.2f}", row["lost_by_moves"], f"{row['longest_gap_by_moves']:.2f}",
            row["resets"] - row["resets_by_moves"], row["resets_by_moves"], f"{row['slowest']:.2f}",
        ]
        for row in report["kinds"]
    ]  # fmt: skip
    head = [
        "kind", "protocol", "family", "sent", "lost", "gap s", "lost in moves", "gap s", "resets", "resets by moves",
        "slowest s",
    ]  # fmt: skip
    measured = {row["kind"] for row in report["kinds"]}
    lost = [kind for kind in KINDS if kind in measured]
    phases = [
        [
            phase["step"], ", ".join(phase["nodes"]), f"{phase['seconds']:.1f}",
            *(phase["lost"].get(kind, 0) for kind in lost),
            phase["failed"], phase["resets"], phase["lost_by_moves"], f"{phase['pause']:.2f}",
        ]
        for phase in report["phases"]
    ]  # fmt: skip
    steps = ["step", "nodes", "seconds", *lost, "failed", "resets", "in moves", "host late s"]
    return [
        *table(
            "Traffic (lost in moves: an end of the flow was being stopped and started elsewhere; "
            "comparison: a network that does not change)",
            head,
            kinds,
        ),
        *table("Lost by step; failed: new connections; host late: a sender did not get its turn", steps, phases),
        *shortened("Problems of the measurement", report["problems"]),
    ]
