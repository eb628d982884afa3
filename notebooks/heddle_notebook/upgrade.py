# SPDX-License-Identifier: Apache-2.0
"""Results of heddle.ovn.upgrade_layer2, as pictures and tables for a notebook."""

from __future__ import annotations

import json
from pathlib import Path

from ansible_collections.heddle.ovn.plugins.plugin_utils.pages.layer2_upgrade import UpgradePage

from .report import Markup, Picture


class Upgrade:
    """The report of an upgrade in a directory. Pictures are also kept as files in another one."""

    def __init__(self, directory: str, pictures: str = "") -> None:
        self.pictures = Path(pictures) if pictures else Path(directory) / "pictures"
        path = Path(directory) / "upgrade_layer2.json"
        if not path.exists():
            raise FileNotFoundError(f"{path} is missing; run heddle.ovn.upgrade_layer2 first")
        self.report = json.loads(path.read_text(encoding="utf-8"))
        self.page = UpgradePage(self.report)

    def summary(self) -> Markup:
        """Whether the upgrade completed, and its losses."""
        return Markup(self.page.summary())

    def totals(self) -> dict[str, str]:
        """Return what was lost of what, one line for each kind and protocol."""
        return self.page.totals()

    def steps(self) -> Markup:
        """What was lost from each step to the next."""
        return Markup(self.page.steps())

    def flows(self) -> Markup:
        """Each flow."""
        return Markup(self.page.flows())

    def moves(self) -> Markup:
        """Which workload went where, and how long the step took that moved it."""
        return Markup(self.page.moves())

    def measurement(self) -> Markup:
        """What the measurement cost, and what is wrong with it."""
        return Markup(self.page.measurement())

    def losses(self) -> Picture:
        """Losses over time, beside the steps."""
        svg = self.page.losses()
        self.pictures.mkdir(parents=True, exist_ok=True)
        (self.pictures / "upgrade-losses.svg").write_text(svg, encoding="utf-8")
        return Picture(svg)

    def check(self) -> None:
        """Raise AssertionError when the upgrade failed or its traffic was not measured."""
        assert not self.report["failures"], "the upgrade failed:\n" + "\n".join(self.report["failures"])
        assert self.report["traffic"].get("flows"), (
            "no traffic was measured; heddle_upgrade_traffic=false leaves it out"
        )
