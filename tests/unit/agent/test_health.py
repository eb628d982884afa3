# SPDX-License-Identifier: Apache-2.0
"""`heddle-host status` names daemons that do not run and a chassis id that is not the plan's, with the remedy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.agent import cli
from ansible_collections.heddle.ovn.plugins.module_utils.agent.health import health
from ansible_collections.heddle.ovn.plugins.module_utils.agent.module_runner import UserError
from ansible_collections.heddle.ovn.plugins.module_utils.agent.service import components
from ansible_collections.heddle.ovn.plugins.module_utils.common.change import Outcome

PLAN = {"digest": "d", "revision": 3, "networks": {}, "nodes": {"node1": {"chassis": "planned"}}}


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


GATEWAY = {
    "addresses": ["192.0.2.11/24"], "next_hops": ["192.0.2.1"], "mac": "02:00:00:00:00:01", "advertised_interfaces": [],
}  # fmt: skip


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (GATEWAY, []),
        ({**GATEWAY, "addresses": ["192.0.2.11/24", "192.0.2.99/32"]}, ["addresses", "192.0.2.11/24, 192.0.2.99/32"]),
        ({**GATEWAY, "next_hops": []}, ["next_hops", "none", "192.0.2.1"]),
        ({**GATEWAY, "mac": "02:00:00:00:00:02"}, ["mac", "02:00:00:00:00:02", "02:00:00:00:00:01"]),
        # A newer program reports more than an older plan has.
        ({**GATEWAY, "translated_ports": "32768-60999"}, []),
        ({**GATEWAY, "advertised_interfaces": ["eth0"]}, []),
        (None, []),
        ({}, []),
    ],
)
def test_a_fact_of_the_host_that_the_plan_has_otherwise_is_named_with_the_playbook(found, words):
    plan = {"nodes": {"node1": {"gateway": GATEWAY}, "node2": {"gateway": None}}}
    lines = health.other_facts("node1", found, plan)
    assert len(lines) == bool(words)
    for word in words:
        assert word in lines[0]
        assert "heddle.ovn.networks" in lines[0]
    assert health.other_facts("node2", found, plan) == []
    assert health.other_facts("node1", found, {}) == []


def test_the_chassis_part_compares_the_host_with_the_plan(monkeypatch, tmp_path):
    plan = {"deployment": "", "digest": "", "networks": {}, "revision": 1, "settings": {}, "workloads": {}}
    plan["nodes"] = {"node1": {"gateway": GATEWAY}}
    monkeypatch.setattr(components, "PLAN_FILE", str(tmp_path / "plan.json"))
    facts = {"gateway": {**GATEWAY, "addresses": ["192.0.2.12/24"]}}
    monkeypatch.setattr(components, "apply_chassis", lambda _parameters, *, write: (Outcome(), facts))

    def notes() -> tuple:
        return components.parts({"node": "node1", "chassis": {}}, write=False)["chassis"]().notes

    assert notes() == ()
    (tmp_path / "plan.json").write_text("{")
    assert notes() == ()
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    (line,) = notes()
    assert "192.0.2.12/24" in line


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


def test_status_is_not_clean_when_a_part_has_a_note(monkeypatch, capsys, ill):
    monkeypatch.setattr(cli, "stopped_daemons", lambda: [])
    monkeypatch.setattr(cli, "_outcomes", lambda write: {"gateway": Outcome(notes=("no cgroup of the prober",))})
    assert cli.main(["status"]) == cli.EXIT_DRIFT
    assert "no cgroup of the prober" in capsys.readouterr().out
    assert cli.main(["apply"]) == cli.EXIT_CLEAN
    assert "no cgroup of the prober" in capsys.readouterr().err


def test_status_reports_health_problems_without_a_comparison(monkeypatch, capsys, ill):
    def fail(write):
        raise UserError("no connection")

    monkeypatch.setattr(cli, "_outcomes", fail)
    assert cli.main(["status"]) == cli.EXIT_FAILED
    assert "systemctl start ovn-northd" in capsys.readouterr().err
