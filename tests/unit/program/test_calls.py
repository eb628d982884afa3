# SPDX-License-Identifier: Apache-2.0
"""Modules that the program of a host runs for Ansible: same results, and Ansible's own way wherever it does not fit."""

from __future__ import annotations

import importlib
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from ansible.errors import AnsibleConnectionFailure, AnsibleError

from ansible_collections.heddle.ovn.plugins.action import reachability as reachability_action
from ansible_collections.heddle.ovn.plugins.action import zone as zone_action
from ansible_collections.heddle.ovn.plugins.module_utils.common.change import Change, Outcome
from ansible_collections.heddle.ovn.plugins.module_utils.common.serialization import pack
from ansible_collections.heddle.ovn.plugins.module_utils.program.calls import CALLS
from ansible_collections.heddle.ovn.plugins.module_utils.program.zipapp import bundle, source_version
from ansible_collections.heddle.ovn.plugins.module_utils.render.common.host_plan import host_plan
from ansible_collections.heddle.ovn.plugins.module_utils.verify.audit import compare
from tests.pipeline import layer2, namespace, plan_of

COLLECTION = "ansible_collections.heddle.ovn.plugins"
PLAN = plan_of(namespace("red") + layer2("red", "net", "10.1.0.0/24"))
AUDIT = {"node": "node1", "document": pack(PLAN), "plan": "/nonexistent"}


@pytest.mark.parametrize("name", sorted(CALLS))
def test_a_module_its_action_and_the_program_are_one(name):
    file, function = CALLS[name]
    implementation = getattr(importlib.import_module(f"{COLLECTION}.module_utils.{file}"), function)
    module = importlib.import_module(f"{COLLECTION}.modules.{name}")
    assert getattr(module, function) is implementation
    arguments = importlib.import_module(f"{COLLECTION}.action.{name}").ActionModule.arguments
    assert any(value is arguments for value in vars(module).values())


def call(path: Path, /, **request: object) -> dict:
    given = {"program": source_version(), "module": "audit", "params": AUDIT, "check_mode": True, "diff": False}
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(path), "call"],
        input=json.dumps({**given, **request}), capture_output=True, text=True, check=True,
    )  # fmt: skip
    return json.loads(done.stdout)


def test_the_program_returns_what_the_module_returns(tmp_path):
    program = tmp_path / "heddle-host"
    program.write_bytes(bundle())
    result = call(program)["result"]
    assert (result["changed"], result["digest"], result["drift"]) == (False, host_plan(PLAN, "node1")["digest"], [])
    assert result["problems"]
    failed = call(program, params={**AUDIT, "node": "elsewhere"})["result"]
    assert failed["failed"]
    assert failed["msg"] == "node elsewhere is not in the plan; it has node1, node2, node3"


def test_a_program_of_other_sources_runs_nothing(tmp_path):
    program = tmp_path / "heddle-host"
    program.write_bytes(bundle())
    assert call(program, program="another", module="nonsense") == {"program": source_version()}


class Host:
    """What an action needs of Ansible: a task, and a connection to a host that answers as given."""

    def __init__(self, reply: object, plugin: ModuleType = zone_action, **task: object) -> None:
        self.action = plugin.ActionModule.__new__(plugin.ActionModule)
        fields = {"action": "heddle.ovn.zone", "args": {}, "async_val": 0, "check_mode": False, "diff": False}
        self.action._task = SimpleNamespace(**{**fields, **task})
        self.action._compute_environment_string = lambda: ""
        self.action._low_level_execute_command = self.execute
        self.reply, self.given, self.verb = reply, {}, ""

    def execute(self, command: str, in_data: bytes) -> dict:
        program, _space, self.verb = command.partition(" ")
        assert program == "/usr/local/sbin/heddle-host"
        self.given = json.loads(in_data)
        if isinstance(self.reply, Exception):
            raise self.reply
        return self.reply


def printed(text: str, status: int = 0) -> dict:
    return {"rc": status, "stdout": text, "stderr": ""}


def test_the_action_returns_what_the_host_s_program_returns():
    reply = json.dumps({"program": source_version(), "result": {"changed": True}})
    host = Host(printed(f"a line that the shell's start prints\n{reply}\n"), check_mode=True)
    assert host.action._by_program({"node": "n"}) == {"changed": True}
    assert host.verb == "call"
    assert host.given == {
        "program": source_version(), "module": "zone", "params": {"node": "n"}, "check_mode": True, "diff": False,
    }  # fmt: skip


@pytest.mark.parametrize(("state", "verb"), [("started", "call-apart"), ("probed", "call"), ("stopped", "call")])
def test_a_responder_is_not_started_by_the_service(state, verb):
    host = Host(printed(""), reachability_action)
    assert host.action._by_program({"state": state}) is None
    assert host.verb == verb


def test_a_call_apart_is_answered_by_its_own_process(tmp_path):
    """The service may take calls meanwhile: this one does not ask it."""
    calls, requests = tmp_path / "calls.sock", []
    patched = (
        "import sys; from ansible_collections.heddle.ovn.plugins.module_utils.program import service_client; "
        f"service_client.asked.__defaults__ = ({str(calls)!r},); sys.argv = sys.argv[1:]; "
        "from ansible_collections.heddle.ovn.plugins.module_utils.program.main import main; "
        f"sys.exit(main({source_version()!r}))"
    )
    with socket.socket(socket.AF_UNIX) as service:
        service.bind(str(calls))
        service.listen()
        service.setblocking(False)
        for verb in ("call-apart", "call"):
            done = subprocess.run(
                [sys.executable, "-c", patched, "heddle-host", verb], text=True, capture_output=True, check=True,
                input=json.dumps({"program": "another"}), env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            )  # fmt: skip
            assert json.loads(done.stdout) == {"program": source_version()}
            try:
                service.accept()[0].close()
                requests.append(verb)
            except BlockingIOError:
                continue
    # In `call` the service has half a second, after which the process answers itself.
    assert requests == ["call"]


@pytest.mark.parametrize(
    "reply",
    [
        printed(json.dumps({"program": "another"})),
        printed("", 127),
        printed("usage: heddle-host", 2),
        printed("Traceback", 1),
        printed(json.dumps({"program": "another", "result": {"changed": False}})),
        AnsibleError("no pipelining"),
    ],
)
def test_elsewhere_ansible_runs_the_module(reply):
    assert Host(reply).action._by_program({}) is None


def test_a_host_that_does_not_answer_is_not_asked_again():
    with pytest.raises(AnsibleConnectionFailure):
        Host(AnsibleConnectionFailure("no route")).action._by_program({})


def test_what_only_ansible_provides_is_left_to_the_module():
    assert not Host({}, args={"plan": "/var/lib/heddle/plan.json"}).action._needs_module()
    assert Host({}, args={"plan": "~/plan.json"}).action._needs_module()
    assert Host({}, async_val=10).action._needs_module()
    with_environment = Host({})
    with_environment.action._compute_environment_string = lambda: "LANG=C"
    assert with_environment.action._needs_module()


@pytest.fixture
def parts(monkeypatch) -> list[str]:
    """The parts of a comparison that were read; each finds one difference."""
    read: list[str] = []

    def part(name: str):
        def found(_self) -> Outcome:
            read.append(name)
            return Outcome((Change("kernel", "create", "link", name, "red_net", {}, {}),))

        return found

    def no_client(*_arguments, **_options):
        raise AssertionError("a part that this fixture does not replace reads the host")

    monkeypatch.setattr(compare, "Client", no_client)
    for name in ("_chassis", "_northbound", "_southbound", "_ports", "_gateway", "_endpoints", "_virtual_machines"):
        monkeypatch.setattr(compare.Comparison, name, part(name))
    monkeypatch.setattr(compare, "stopped_of", lambda _plan: {})
    monkeypatch.setattr(compare, "other_chassis", lambda *_arguments: ["another chassis"])
    return read


def test_what_was_just_applied_without_a_change_is_not_read_again(parts):
    comparison = compare.Comparison(PLAN, "node1")
    found = {
        "drift": [{"network": "red_net"}], "problems": ["another chassis"], "stopped": [], "digest": PLAN["digest"],
        "paths": [],
    }  # fmt: skip
    assert comparison.summary(written=frozenset()) == found
    assert parts == ["_chassis"]
    assert comparison.summary(written={compare.EVERYTHING}) == found
    assert parts[1:] == [
        "_chassis", "_northbound", "_southbound", "_ports", "_gateway", "_endpoints", "_virtual_machines"
    ]  # fmt: skip
