# SPDX-License-Identifier: Apache-2.0
"""With `--everywhere` all networks are on all nodes while the bench measures, and the lab is as before afterwards."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path

import pytest

from tests.bench import dynamic_networks, workloads
from tests.lab.conftest import Run

STEPS = ["added", "audit", "all removed"]


class FakeLab:
    """Notes the playbooks that are run, with their settings and what their manifests begin with."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.runs = directory, []

    def play(self, playbook: str, *arguments: str, manifests: Path | None = None, success: bool = True) -> Run:
        """Note a run."""
        found = [json.loads(one)["heddle_settings"] for one in arguments if one.startswith("{")]
        text = (manifests / "scale.yml").read_text() if manifests else "the lab's own"
        self.runs.append((playbook, found, text.count("kind: UserDefinedNetwork"), success))
        return Run(0, "")


@pytest.fixture
def lab(monkeypatch, tmp_path: Path) -> FakeLab:
    found = FakeLab(tmp_path)
    monkeypatch.setattr(workloads, "Lab", lambda _directory: found)
    monkeypatch.setattr(workloads, "raised_limits", lambda _directory: contextlib.nullcontext())
    monkeypatch.setattr(workloads, "processor_seconds", lambda _lab: dict.fromkeys(workloads.COLUMNS, 0.0))
    return found


def bench(monkeypatch, *options: str) -> None:
    """Run the bench with two networks and few steps."""
    arguments = ["--networks", "2", "--used", "1", "--steps", ",".join(STEPS), *options]
    monkeypatch.setattr(sys, "argv", ["workloads", *arguments])
    workloads.main()


def test_networks_are_on_all_nodes_while_it_measures(monkeypatch, capsys, lab: FakeLab):
    bench(monkeypatch, "--everywhere")
    everywhere = [{**dynamic_networks.SETTINGS, "dynamic_networks": False}]
    assert lab.runs == [
        ("networks.yml", everywhere, 0, False),
        ("networks.yml", everywhere, 2, False),
        ("audit.yml", [], 0, False),
        ("networks.yml", everywhere, 0, False),
        ("networks.yml", [], 0, True),
    ]
    assert "2 networks on all nodes" in capsys.readouterr().out


def test_networks_are_where_they_are_used_otherwise(monkeypatch, capsys, lab: FakeLab):
    bench(monkeypatch)
    assert [settings for _playbook, settings, _networks, _success in lab.runs] == [[], [], []]
    assert "on all nodes" not in capsys.readouterr().out
