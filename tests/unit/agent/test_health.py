# SPDX-License-Identifier: Apache-2.0
"""`heddle-host status` names daemons that do not run and a chassis id that is not the plan's, with the remedy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.agent import cli, health
from ansible_collections.heddle.ovn.plugins.module_utils.agent.module_runner import UserError
from ansible_collections.heddle.ovn.plugins.module_utils.common.change import Outcome

PLAN = {"digest": "d", "revision": 3, "nodes": {"node1": {"chassis": "planned"}}}


@pytest.fixture(name="host")
def _host(tmp_path: Path) -> tuple[Path, Path]:
    """A host whose daemons all run: what stands for /run and /proc."""
    run, proc = tmp_path / "run", tmp_path / "proc"
    for number, (file, process, _unit) in enumerate(health.DAEMONS, start=1):
        (run / file).parent.mkdir(parents=True, exist_ok=True)
        (run / file).write_text(f"{number}\n")
        (proc / str(number)).mkdir(parents=True)
        (proc / str(number) / "comm").write_text(f"{process}\n")
    return run, proc


def test_no_health_problem_when_daemons_run(host):
    assert health.stopped_daemons(*host) == []


@pytest.mark.parametrize("number", range(1, len(health.DAEMONS) + 1))
@pytest.mark.parametrize("how", ["gone", "no file", "another process", "no number"])
def test_stopped_daemon_is_named_with_the_remedy(host, number, how):
    run, proc = host
    file, _process, unit = health.DAEMONS[number - 1]
    if how == "gone":
        (proc / str(number) / "comm").unlink()
    elif how == "another process":
        (proc / str(number) / "comm").write_text("sleep\n")
    elif how == "no number":
        (run / file).write_text("")
    else:
        (run / file).unlink()
    (line,) = health.stopped_daemons(run, proc)
    assert line.startswith(f"{unit} does not run: systemctl start {unit} ")


@pytest.mark.parametrize(("found", "reported"), [("planned", []), ("new", ["new"]), ("", ["missing"])])
def test_wrong_chassis_id_is_named_with_the_remedy(monkeypatch, found, reported):
    monkeypatch.setattr(health, "chassis_id", lambda _remote: found)
    lines = health.other_chassis("node1", PLAN)
    assert len(lines) == len(reported)
    for line, word in zip(lines, reported, strict=True):
        assert f"is {word}, in the plan it is planned" in line
        assert "system-id.conf" in line
    assert health.other_chassis("node2", PLAN) == []


@pytest.fixture(name="ill")
def _ill(monkeypatch):
    monkeypatch.setattr(cli, "stopped_daemons", lambda: ["ovn-northd does not run: systemctl start ovn-northd"])
    monkeypatch.setattr(cli, "other_chassis", lambda _node, _plan: [])
    monkeypatch.setattr(cli, "read_host", lambda: {"node": "node1"})
    monkeypatch.setattr(cli, "read_plan", lambda: PLAN)


def test_health_problem_makes_status_fail(monkeypatch, capsys, ill):
    monkeypatch.setattr(cli, "_outcomes", lambda write: {"topology": Outcome()})
    assert cli.main(["status"]) == cli.EXIT_DRIFT
    assert "systemctl start ovn-northd" in capsys.readouterr().out
    assert cli.main(["status", "--json"]) == cli.EXIT_DRIFT
    reported = json.loads(capsys.readouterr().out)
    assert (reported["clean"], len(reported["problems"])) == (False, 1)


def test_status_reports_health_problems_without_a_comparison(monkeypatch, capsys, ill):
    def fail(write):
        raise UserError("no connection")

    monkeypatch.setattr(cli, "_outcomes", fail)
    assert cli.main(["status"]) == cli.EXIT_FAILED
    assert "systemctl start ovn-northd" in capsys.readouterr().err
