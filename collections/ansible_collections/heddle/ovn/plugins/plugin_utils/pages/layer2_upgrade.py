# SPDX-License-Identifier: Apache-2.0
"""The page of an upgrade of Layer2 networks: its steps, and the traffic that was lost meanwhile."""

from __future__ import annotations

from html import escape

from ansible_collections.heddle.ovn.plugins.module_utils.traffic.losses import MOVING

from .losses import losses
from .markup import document, result_box, scaled, table


class UpgradePage:
    """Parts of the page, made of what heddle.ovn.upgrade_layer2 writes to upgrade_layer2.json."""

    def __init__(self, report: dict) -> None:
        self.report = report
        self.traffic = report["traffic"]

    def summary(self) -> str:
        """Whether the upgrade completed, and its losses."""
        lines = [*self.report["failures"]]
        lines += [f"{key}: {value}" for key, value in self.totals().items()]
        return result_box("Upgrade of Layer2 networks", not self.report["failures"], lines)

    def totals(self) -> dict[str, str]:
        """Return what was lost of what, one line for each kind and protocol."""
        sums: dict[str, list[float]] = {}
        for row in self.traffic.get("kinds", []):
            one = sums.setdefault(f"{row['kind']}, {row['protocol']}", [0, 0, 0, 0.0])
            one[0] += row["sent"]
            one[1] += row["lost"] - row["lost_by_moves"]
            one[2] += row["lost_by_moves"]
            one[3] = max(one[3], row["longest_gap"])
        return {
            name: f"{sent} sent, {lost} lost (longest gap {gap:.2f} s), {moved} lost while an end was moved"
            for name, (sent, lost, moved, gap) in sums.items()
        }

    def steps(self) -> str:
        """What was lost from each step to the next."""
        kinds = sorted({row["kind"] for row in self.traffic["kinds"]})
        rows = [
            [
                f"<b>{escape(phase['step'])}</b>", escape(", ".join(phase["nodes"])), f"{phase['seconds']:.1f}",
                *(str(phase["lost"].get(kind, 0)) for kind in kinds), str(phase["failed"]), str(phase["resets"]),
                str(phase["lost_by_moves"]), f"{phase['pause']:.2f}",
            ]
            for phase in self.traffic["phases"]
        ]  # fmt: skip
        head = [
            "step", "nodes", "seconds", *kinds, "connections failed", "resets", "lost in moves", "sender late, s",
        ]  # fmt: skip
        return table(head, rows)

    def flows(self) -> str:
        """Each flow."""
        rows = [
            [
                escape(flow["kind"]), escape(flow["protocol"]), escape(flow["source"]),
                f"{escape(flow['target'])}<br><code>{escape(flow['address'])}</code>", str(flow["sent"]),
                str(flow["lost"] - flow["lost_by_moves"]), f"{flow['longest_gap']:.2f}", str(flow["lost_by_moves"]),
                f"{flow['longest_gap_by_moves']:.2f}", str(len(flow["resets"])), f"{flow['slowest']:.2f}",
                escape(" → ".join(host for host, _began, _ended in flow["hosts"])),
            ]
            for flow in self.traffic["flows"]
        ]  # fmt: skip
        head = [
            "kind", "protocol", "from", "to", "sent", "lost", "longest gap, s", "lost in moves", "gap, s", "resets",
            "slowest answer, s", "sent by",
        ]  # fmt: skip
        return table(head, rows)

    def moves(self) -> str:
        """Which workload went where, and how long the step took that moved it."""
        windows = {(owner, round(start, 3)): end - start for owner, start, end in self.traffic["moves"] if end}
        rows = [
            [escape(move["workload"]), escape(move["network"]), escape(move["source"]), escape(move["target"]),
             f"{windows.get((move['workload'], round(step['time'], 3)), 0):.1f}"]
            for step in self.report["steps"]
            for move in (step["moved"] if step["step"] in MOVING else [])
        ]  # fmt: skip
        return table(["workload", "network", "from", "to", "step took, s"], rows)

    def measurement(self) -> str:
        """What the measurement cost, and what is wrong with it."""
        rows = [
            [
                f"<b>{escape(name)}</b>",
                f"{seconds / max(self.traffic['seconds'][name], 0.1) * 100:.1f} %",
                " to ".join(f"{value:+.2f}" for value in self.traffic["clocks"].get(name, [])),
            ]
            for name, seconds in self.traffic["processor_seconds"].items()
        ]
        problems = "".join(f"<li>{escape(line)}</li>" for line in self.traffic["problems"])
        head = ["host", "processor", "clock ahead of the control node's, s"]
        return table(head, rows) + f"<ul>{problems}</ul>"

    def losses(self) -> str:
        """Return losses over time, beside the steps, as SVG."""
        return losses(self.traffic, self.report["steps"])

    def files(self) -> dict[str, str]:
        """Return the whole as one HTML page, and its picture as a file of its own."""
        picture = self.losses()
        parts = [
            self.summary(), scaled(picture), "<h2>Steps</h2>", self.steps(), "<h2>Moves</h2>", self.moves(),
            "<h2>Flows</h2>", self.flows(), "<h2>The measurement itself</h2>", self.measurement(),
        ]  # fmt: skip
        page = document("Upgrade of Layer2 networks", "\n".join(parts))
        return {"upgrade_layer2.html": page, "upgrade-losses.svg": picture}


def layer2_upgrade_files(report: dict) -> dict[str, str]:
    """Return the text of each file by its name."""
    return UpgradePage(report).files() if report["traffic"] else {}
