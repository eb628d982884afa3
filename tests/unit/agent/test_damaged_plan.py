# SPDX-License-Identifier: Apache-2.0
"""A plan that was edited, or damaged so that it still is JSON: one error with the remedy instead of a traceback."""

from __future__ import annotations

import contextlib
import json
from ipaddress import ip_network

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.agent import cli, module_runner
from ansible_collections.heddle.ovn.plugins.module_utils.agent.health.health_check_ports import HealthCheckPorts
from ansible_collections.heddle.ovn.plugins.module_utils.agent.module_runner import UserError, read_plan_file, reported
from ansible_collections.heddle.ovn.plugins.module_utils.agent.service import service
from ansible_collections.heddle.ovn.plugins.module_utils.program import calls
from ansible_collections.heddle.ovn.plugins.module_utils.render.common.host_plan import host_plan
from tests.pipeline import layer2, namespace, plan_of, with_gateways, workload

PLAN = host_plan(
    plan_of(
        namespace("red") + layer2("red", "net", "10.0.0.0/24") + workload("red", "w", "node1"),
        hosts=with_gateways("shared"),
    ),
    "node1",
)
REMEDY = "was edited or is damaged: its content has another digest than it says"
# What is done to the plan's file, in a part.
EDITS = {
    "without a key": lambda plan: plan["networks"]["red_net"].pop("subnets"),
    "without content": lambda plan: plan["workloads"].update({"red/w": {}}),
    "of another type": lambda plan: plan["nodes"].update(node1=["chassis"]),
    "no address": lambda plan: plan["networks"]["red_net"].update(subnets=["10.0.0"]),
}


@pytest.fixture(params=EDITS)
def path(request, tmp_path) -> str:
    """A file with such a plan."""
    plan = json.loads(json.dumps(PLAN))
    EDITS[request.param](plan)
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(plan))
    return str(file)


def test_a_call_of_ansible_reports_it(path):
    params = {"node": "node1", "plan": path, "document": None}
    result = calls.call("audit", params, check_mode=True, diff=False)
    assert result["failed"]
    assert REMEDY in result["msg"]
    assert "Remove it and run heddle.ovn.networks" in result["msg"]


def test_a_module_reports_it(path):
    class Failed(Exception):
        pass

    class Module:
        check_mode = True
        params = {"plan": path}

        def fail_json(self, msg):
            raise Failed(msg)

    with pytest.raises(Failed, match=REMEDY), reported(Module()):
        raise KeyError("subnets")


@pytest.mark.parametrize("part", [lambda: {}["subnets"], lambda: ip_network("10.0.0")])
def test_the_service_and_the_command_line_report_it(path, part, monkeypatch, capsys):
    for module in (service, cli):
        monkeypatch.setattr(module, "PLAN_FILE", path)
        monkeypatch.setattr(module, "only_writer", lambda **_named: contextlib.nullcontext())
        monkeypatch.setattr(module, "read_host", lambda: {"node": "node1"})
        monkeypatch.setattr(module, "parts", lambda _host, **_named: {"topology": part})
    failures, _notes = service.bring(("topology",))
    assert REMEDY in failures["topology"]
    assert cli.main(["diff"]) == cli.EXIT_FAILED
    assert REMEDY in capsys.readouterr().err


def test_a_defect_is_not_hidden_where_the_plan_is_as_it_was_written(tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(PLAN))
    request = module_runner.Request({"plan": str(path)}, check_mode=True)
    with pytest.raises(KeyError, match="defect"):
        module_runner.answer(lambda _request: {}["defect"], request)


@pytest.mark.parametrize("part", ["networks", "nodes", "workloads", "settings", "revision", "digest"])
def test_a_part_of_another_type_is_no_plan(tmp_path, part):
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({**PLAN, part: []}))
    with pytest.raises(UserError, match=r"the file is damaged. Run heddle.ovn.networks, which writes it"):
        read_plan_file(str(path))


def test_health_check_ports_stay_as_they_were(tmp_path):
    """The service would end, and begin again and again."""
    ports = HealthCheckPorts(lambda _line: None, lambda: {}["services"], str(tmp_path / "plan.json"))
    (tmp_path / "plan.json").write_text("{}")
    ports.follow()
    assert ports.sources == []
