# SPDX-License-Identifier: Apache-2.0
"""Results of playbooks/upgrade_layer2.yml, as pictures and tables."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path

from .collection import MOVING
from .losses import losses
from .report import Markup, Picture
from .tables import result_box, table


class Upgrade:
    """The report of an upgrade in a directory. Pictures are also kept as files in another one."""

    def __init__(self, directory: str, pictures: str = "") -> None:
        self.pictures = Path(pictures) if pictures else Path(directory) / "pictures"
        path = Path(directory) / "upgrade_layer2.json"
        if not path.exists():
            raise FileNotFoundError(f"{path} is missing; run playbooks/upgrade_layer2.yml first")
        self.report = json.loads(path.read_text(encoding="utf-8"))
        self.traffic = self.report["traffic"]

    def summary(self) -> Markup:
        """Whether the upgrade completed, and its losses."""
        lines = [*self.report["failures"]]
        lines += [f"{key}: {value}" for key, value in self.totals().items()]
        return Markup(result_box("Upgrade of Layer2 networks", not self.report["failures"], lines))

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

    def steps(self) -> Markup:
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
        return Markup(table(head, rows))

    def flows(self) -> Markup:
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
        return Markup(table(head, rows))

    def moves(self) -> Markup:
        """Which workload went where, and how long the step took that moved it."""
        windows = {(owner, round(start, 3)): end - start for owner, start, end in self.traffic["moves"] if end}
        rows = [
            [escape(move["workload"]), escape(move["network"]), escape(move["source"]), escape(move["target"]),
             f"{windows.get((move['workload'], round(step['time'], 3)), 0):.1f}"]
            for step in self.report["steps"]
            for move in (step["moved"] if step["step"] in MOVING else [])
        ]  # fmt: skip
        return Markup(table(["workload", "network", "from", "to", "step took, s"], rows))

    def measurement(self) -> Markup:
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
        return Markup(table(head, rows) + f"<ul>{problems}</ul>")

    def losses(self) -> Picture:
        """Losses over time, beside the steps."""
        svg = losses(self.traffic, self.report["steps"])
        self.pictures.mkdir(parents=True, exist_ok=True)
        (self.pictures / "upgrade-losses.svg").write_text(svg, encoding="utf-8")
        return Picture(svg)

    def page(self) -> str:
        """Return all of it as one HTML page."""
        parts = [
            self.summary(), self.losses(), "Steps", self.steps(), "Moves", self.moves(), "Flows", self.flows(),
            "The measurement itself", self.measurement(),
        ]  # fmt: skip
        body = "\n".join(f"<h2>{part}</h2>" if isinstance(part, str) else part._repr_html_() for part in parts)
        return (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">'
            "<title>Upgrade of Layer2 networks</title></head>"
            f'<body style="font-family: Helvetica, Arial, sans-serif; margin: 24px">{body}</body></html>\n'
        )

    def check(self) -> None:
        """Raise AssertionError when the upgrade failed or its traffic was not measured."""
        assert not self.report["failures"], "the upgrade failed:\n" + "\n".join(self.report["failures"])
        assert self.traffic.get("flows"), "no traffic was measured; heddle_upgrade_traffic=false leaves it out"
