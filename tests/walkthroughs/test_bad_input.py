# SPDX-License-Identifier: Apache-2.0
"""What goes wrong while a notebook operates the lab: one sentence, and a further run completes it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT / "notebooks") not in sys.path:
    sys.path.insert(0, str(ROOT / "notebooks"))

from heddle_notebook import Fleet, Interrupted, Lab, PlayFailed  # noqa: E402 - needs the path above
from heddle_notebook.progress import Progress  # noqa: E402
from tests.supervised import supervised  # noqa: E402

TENANT = """
---
apiVersion: v1
kind: Namespace
metadata: {{name: {name}, labels: {{k8s.ovn.org/primary-user-defined-network: ""}}}}
---
apiVersion: k8s.ovn.org/v1
kind: UserDefinedNetwork
metadata: {{name: net, namespace: {name}}}
spec: {{topology: Layer2, layer2: {{role: Primary, subnets: [10.50.0.0/24]}}}}
---
apiVersion: heddle.dev/v1
kind: Workload
metadata: {{name: one, namespace: {name}}}
spec: {{node: node3}}
"""
APPLY = """
import sys
sys.path.insert(0, "notebooks")
from heddle_notebook import Fleet
Fleet(report=sys.argv[1]).apply(sys.argv[3], sys.argv[2])
"""
APPLIES = "Apply the plan to the hosts whose part of it changed"
OVERTAKEN = "Another run has changed the networks since this one began"


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    found = Fleet(report=tmp_path / "report", live=False)
    yield found
    found.apply("# none\n")
    assert found.audit().passed


def at_play(monkeypatch: pytest.MonkeyPatch, name: str, action: Callable[[], None]) -> list[str]:
    """Do something when a play begins; the value gets its name when that was done."""
    following, done = Progress.event, []

    def event(progress: Progress, found: dict) -> None:
        following(progress, found)
        if found["event"] == "playbook_on_play_start" and found["event_data"].get("name") == name:
            action()
            done.append(name)

    monkeypatch.setattr(Progress, "event", event)
    return done


def test_two_notebooks_at_once(fleet: Fleet) -> None:
    """Both with the same report, as two pages that are open in one JupyterLab; one that is overtaken says so."""
    names = ("one", "two")
    both = [
        subprocess.Popen(
            supervised([sys.executable, "-c", APPLY, str(fleet.report), name, TENANT.format(name=f"at-once-{name}")]),
            cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
        for name in names
    ]  # fmt: skip
    said = {name: process.communicate()[0] for name, process in zip(names, both, strict=True)}
    overtaken = [name for name, process in zip(names, both, strict=True) if process.returncode]
    assert len(overtaken) < len(names), said
    for name in overtaken:
        assert OVERTAKEN in said[name], said
        fleet.apply(TENANT.format(name=f"at-once-{name}"), name)
    status = fleet.status()
    assert {"at-once-one_net", "at-once-two_net"} <= set(status.networks["name"])
    assert status.ready, status.attention
    assert fleet.audit().passed
    assert (fleet.history()["name"] == "networks").sum() == len(names) + len(overtaken)
    # One set after the other: that of the fixture has nothing.
    fleet.apply("# none\n", "one")
    fleet.apply("# none\n", "two")


def test_a_host_that_goes_down_in_the_middle_of_a_play(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab()
    killed = at_play(monkeypatch, APPLIES, lambda: lab.kill("node3"))
    try:
        with pytest.raises(PlayFailed) as caught:
            fleet.apply(TENANT.format(name="down"))
        assert killed == [APPLIES]
    finally:
        monkeypatch.undo()
        lab.start("node3")
    message = str(caught.value)
    assert message.startswith("networks failed: node3: ") and "\n" not in message, message
    assert "bring node3 up and run it again, it completes what it began" in message
    fleet.apply(TENANT.format(name="down"))
    assert fleet.status().ready


def test_a_run_that_is_interrupted_is_completed(fleet: Fleet) -> None:
    manifests = TENANT.format(name="interrupted")
    with pytest.raises(Interrupted, match=r"^networks was interrupted; run it again, it completes what it began$"):
        fleet.apply(manifests, stop_after="Admit the manifests and compute the plan")
    fleet.apply(manifests)
    status = fleet.status()
    assert status.ready and "interrupted_net" in set(status.networks["name"])
