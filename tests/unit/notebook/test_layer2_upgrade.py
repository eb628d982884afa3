# SPDX-License-Identifier: Apache-2.0
"""The notebook on the upgrade runs on a recorded one, and its picture agrees with the report."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from ansible_collections.heddle.ovn.plugins.plugin_utils.pages.layer2_upgrade import layer2_upgrade_files
from ansible_collections.heddle.ovn.plugins.plugin_utils.pages.losses import LANES, losses

ROOT = Path(__file__).parents[3]
NOTEBOOK = ROOT / "notebooks" / "03_layer2_upgrade.ipynb"
SAMPLE = ROOT / "tests" / "data" / "layer2_upgrade"
if str(NOTEBOOK.parent) not in sys.path:
    sys.path.insert(0, str(NOTEBOOK.parent))

from heddle_notebook import Upgrade  # noqa: E402 - needs the path above

REPORT = json.loads((SAMPLE / "upgrade_layer2.json").read_text())


def texts(svg: str) -> list[str]:
    """All text of a picture, which thereby is well-formed."""
    return [
        "".join(element.itertext()) for element in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    ]


def changed_sample(directory: Path, **changed) -> Path:
    (directory / "upgrade_layer2.json").write_text(json.dumps({**REPORT, **changed}))
    return directory


def run(reports: Path, output: Path) -> subprocess.CompletedProcess:
    command = [
        *(sys.executable, "-m", "papermill", "--no-progress-bar", "--cwd", str(NOTEBOOK.parent)),
        *(str(NOTEBOOK), str(output / "executed.ipynb")),
        *("-p", "report_directory", str(reports), "-p", "pictures_directory", str(output / "pictures")),
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def test_it_runs_on_the_sample(tmp_path: Path) -> None:
    done = run(SAMPLE, tmp_path)
    assert done.returncode == 0, done.stderr
    assert [file.name for file in (tmp_path / "pictures").iterdir()] == ["upgrade-losses.svg"]


@pytest.mark.parametrize(("changed", "message"), [
    ({"failures": ["node1: Bring the gateways to the plan: no"]}, "node1: Bring the gateways to the plan: no"),
    ({"traffic": {}}, "no traffic was measured"),
])  # fmt: skip
def test_check_reports_problems(tmp_path: Path, changed: dict, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        Upgrade(str(changed_sample(tmp_path, **changed))).check()


def test_a_missing_report_names_the_playbook_that_makes_it(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"upgrade_layer2\.json is missing; run heddle.ovn.upgrade_layer2"):
        Upgrade(str(tmp_path))


def test_the_picture_has_every_step_and_lane() -> None:
    shown = texts(losses(REPORT["traffic"], REPORT["steps"]))
    for step in REPORT["steps"]:
        assert " ".join([step["step"], *step["nodes"]]) in shown
    measured = {(flow["kind"], flow["protocol"]) for flow in REPORT["traffic"]["flows"]}
    assert measured <= {lane[:2] for lane in LANES}
    assert {kind for kind, _protocol in measured} <= set(shown)


def test_every_loss_is_in_the_picture() -> None:
    flow = next(one for one in REPORT["traffic"]["flows"] if (one["kind"], one["protocol"]) == ("east-west", "udp"))
    began, ended = REPORT["traffic"]["began"], REPORT["traffic"]["ended"]
    times = {str(int(began * 10)): 3, str(int((began + ended) * 5)): 4, str(int(ended * 10)): 5}
    traffic = {**REPORT["traffic"], "flows": [{**flow, "losses": times, "losses_by_moves": {}, "resets": []}]}
    assert "12 packets lost" in texts(losses(traffic, REPORT["steps"]))


def test_the_page_has_everything() -> None:
    files = layer2_upgrade_files(REPORT)
    page, picture = files["upgrade_layer2.html"], files["upgrade-losses.svg"]
    for flow in REPORT["traffic"]["flows"]:
        assert flow["address"] in page
    for phase in REPORT["traffic"]["phases"]:
        assert f"<b>{phase['step']}</b>" in page
    assert texts(picture) == texts(losses(REPORT["traffic"], REPORT["steps"]))
    assert picture.partition("<svg ")[2] in page


def test_there_is_no_page_without_traffic() -> None:
    assert layer2_upgrade_files({**REPORT, "traffic": {}}) == {}
