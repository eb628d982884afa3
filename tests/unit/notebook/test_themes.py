# SPDX-License-Identifier: Apache-2.0
"""What notebooks show is readable on light and on dark pages: text has the page's color, or a ground of its own."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
if str(ROOT / "notebooks") not in sys.path:
    sys.path.insert(0, str(ROOT / "notebooks"))

from ansible_collections.heddle.ovn.plugins.plugin_utils.pages.colors import network_colors  # noqa: E402
from heddle_notebook import Chaos, Fleet, Operation, Report, Upgrade, play  # noqa: E402
from heddle_notebook.frames import Audit, Status, Verify  # noqa: E402
from tests.fleet import write_report  # noqa: E402

DATA = ROOT / "tests" / "data"
HOST = {"causes": [], "foreign": [], "drift": [], "checked": 3, "notes": ["a note"]}
NODES = ("node1", "node2", "node3")
_ELEMENT = re.compile(r'<\w+[^>]*\sstyle="([^"]*)"[^>]*>([^<]*)')
# The ratio that WCAG 2.2 (1.4.3) asks of text.
READABLE = 4.5


def luminance(color: str) -> float:
    """Return the relative luminance of WCAG 2.2."""
    parts = [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of WCAG 2.2."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def shown(directory: Path) -> dict[str, str]:
    """Return the HTML of everything that a cell can show."""
    (directory / "hosts.yml").write_text("{}")
    fleet = Fleet(directory / "hosts.yml", write_report(directory / "report"))
    report = Report(str(DATA / "first_light"), str(directory / "pictures"))
    upgrade = Upgrade(str(DATA / "layer2_upgrade"), str(directory / "pictures"))
    run = play.Run("test", "failed", "2026-01-01T00:00:00+00:00", 1.0, directory)
    objects = {
        "fleet": fleet, "status": fleet.last_status(), "run": run, "operation": Operation("me"),
        "chaos": Chaos(fleet, "node1"), "logical": fleet.logical("red_net"), "physical": fleet.physical(),
        "verify": Verify(json.loads((DATA / "first_light" / "verify.json").read_text())),
        "audit": Audit({"passed": True, "time": "t", "problems": [], "hosts": {"node1": HOST}}),
        "wrong audit": Audit({"passed": False, "time": "t", "problems": ["node1 did not answer"], "hosts": {}}),
        "wrong status": Status({**fleet.plan(), "host_states": dict.fromkeys(NODES, "not reached")}),
        **{f"report {name}": getattr(report, name)() for name in ("summary", "hosts", "networks", "workloads")},
        **{f"upgrade {name}": getattr(upgrade, name)() for name in ("summary", "steps", "flows", "moves")},
    }  # fmt: skip
    return {name: one._repr_html_() for name, one in objects.items()}


def test_text_is_readable_in_both_themes(tmp_path: Path) -> None:
    wrong = []
    for name, html in shown(tmp_path).items():
        if "<svg" in html:
            # Pictures have a ground of their own, in all themes.
            assert re.search(r'<rect width="100%" height="100%" fill="#ffffff"/>', html), name
            continue
        for style, text in _ELEMENT.findall(html):
            rules = dict(rule.strip().split(": ", 1) for rule in style.split(";") if rule.strip())
            # Marks beside a name are no text.
            if "color" in rules and text.strip() not in ("", "&#9679;"):
                ground = rules.get("background", "")
                if not ground or contrast(rules["color"], ground) < READABLE:
                    wrong.append((name, style, text))
    assert not wrong


@pytest.mark.parametrize("ground", ["#ffffff", "#111111"])
def test_marks_of_networks_are_seen(ground: str) -> None:
    plan = {"networks": {str(number): {"id": number} for number in range(11)}}
    # The ratio of WCAG 2.2 (1.4.11) for what is no text; JupyterLab's dark theme has the ground #111111.
    assert {name: round(contrast(one.strong, ground), 1) for name, one in network_colors(plan).items()
            if contrast(one.strong, ground) < 3} == {}  # fmt: skip
