# SPDX-License-Identifier: Apache-2.0
"""A `heddle-host` that does not run is reported; one that is being restarted, or was never installed, is not."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest
import yaml

from ansible_collections.heddle.ovn.plugins.module_utils.agent import cli
from ansible_collections.heddle.ovn.plugins.module_utils.agent.health import health, host_service
from ansible_collections.heddle.ovn.plugins.module_utils.agent.service import service
from ansible_collections.heddle.ovn.plugins.module_utils.common.errors import ProgramError
from ansible_collections.heddle.ovn.plugins.module_utils.common.files.daemon_report import is_running, only_daemon
from ansible_collections.heddle.ovn.plugins.module_utils.verify.audit import zone_result
from tests.pipeline import layer2, namespace, plan_of

NETWORKS = Path(__file__).parents[3] / "playbooks" / "networks.yml"
PLAN = plan_of(namespace("red") + layer2("red", "net", "10.0.0.0/24"))
RESTARTING = {"ActiveState": "inactive", "Job": "17"}
LOOP = {"ActiveState": "activating", "SubState": "auto-restart", "NRestarts": "0"}
STOPPED = {"ActiveState": "inactive", "SubState": "dead", "NRestarts": "0"}
LINE = "heddle-host does not run: systemctl start heddle-host (its log: journalctl -u heddle-host)"


class Manager:
    """Systemd: what it says about the unit in turn, the last for ever; `asked` counts how often."""

    def __init__(self) -> None:
        self.states: list[dict[str, str] | Exception] = [STOPPED]
        self.asked = 0

    def run(self, argv: list[str], _text: str = "") -> str:
        assert argv[:2] == ["systemctl", "show"]
        state = self.states[min(self.asked, len(self.states) - 1)]
        self.asked += 1
        if isinstance(state, Exception):
            raise state
        return "".join(f"{name}={value}\n" for name, value in state.items())


@pytest.fixture
def manager(monkeypatch, tmp_path) -> Manager:
    """The service manager of a host that has the unit."""
    made = Manager()
    (tmp_path / "heddle-host.service").touch()
    monkeypatch.setattr(host_service, "UNIT_FILE", str(tmp_path / "heddle-host.service"))
    monkeypatch.setattr(host_service, "HOST_SERVICE", str(tmp_path / "run" / "host"))
    monkeypatch.setattr(host_service, "_POLL_SECONDS", 0.0)
    monkeypatch.setattr(host_service.is_stopped, "__defaults__", (0.0, made.run))
    return made


@pytest.mark.parametrize(
    ("state", "stopped"),
    [
        (STOPPED, True),
        ({"ActiveState": "failed", "SubState": "failed", "NRestarts": "0"}, True),
        (LOOP, True),
        ({**LOOP, "SubState": "auto-restart-queued", "Job": "3"}, True),
        ({"ActiveState": "activating", "SubState": "start", "NRestarts": "4", "Job": "3"}, True),
        ({"ActiveState": "deactivating", "SubState": "final-sigkill", "NRestarts": "0"}, True),
        # Started, or restarted with another program.
        ({"ActiveState": "activating", "SubState": "start", "NRestarts": "0", "Job": "3"}, False),
        ({"ActiveState": "deactivating", "SubState": "stop-sigterm", "NRestarts": "4", "Job": "3"}, False),
        (RESTARTING, False),
        # Of a release that had no lock.
        ({"ActiveState": "active", "SubState": "running", "NRestarts": "4"}, False),
        (ProgramError("systemctl", "did not answer"), False),
    ],
)
def test_state_of_the_unit_decides_while_nothing_holds_the_lock(manager, state, stopped):
    manager.states = [state]
    assert host_service.stopped_host_service() == ({"heddle-host": LINE} if stopped else {})
    assert manager.asked == 1


def test_host_without_the_unit_lacks_nothing(manager):
    os.unlink(host_service.UNIT_FILE)
    assert host_service.stopped_host_service(60.0) == {}
    assert manager.asked == 0


def test_service_that_starts_is_waited_for(manager):
    start = {"ActiveState": "activating", "SubState": "start", "NRestarts": "1"}
    manager.states = [LOOP, start, {"ActiveState": "active"}]
    assert host_service.stopped_host_service(60.0) == {}
    manager.asked, manager.states = 0, [LOOP, start, LOOP]
    assert host_service.stopped_host_service(0.05) == {"heddle-host": LINE}
    assert manager.asked > 2
    # It may compare a large plan for longer than anything waits for it.
    manager.asked, manager.states = 0, [{**start, "NRestarts": "0"}]
    assert host_service.stopped_host_service(0.05) == {}
    # Nothing would change without a job.
    manager.asked, manager.states = 0, [STOPPED]
    assert host_service.stopped_host_service(60.0) == {"heddle-host": LINE}
    assert manager.asked == 1


class Ended(Exception):
    """Ends the loop of the service."""


def test_service_counts_as_running_after_its_first_step(manager, monkeypatch):
    found = []

    class Steps:
        def __init__(self, _events) -> None:
            self.done = 0

        def step(self) -> None:
            found.append(is_running(host_service.HOST_SERVICE))
            if self.done == 2:
                # In a copy of the process, which answers a call.
                child = os.fork()
                if child == 0:
                    os._exit(1 if host_service.stopped_host_service() else 0)
                assert os.waitpid(child, 0)[1] == 0
                raise Ended
            self.done += 1

    monkeypatch.setattr(service, "Reconciler", Steps)
    monkeypatch.setattr(service, "Events", lambda **_named: None)
    monkeypatch.setattr(service, "HealthCheckPorts", lambda _say: None)
    with pytest.raises(Ended):
        service.watch()
    assert found == [False, True, True]
    assert manager.asked == 0
    assert host_service.stopped_host_service() == {"heddle-host": LINE}, "it has ended"


def test_lock_that_cannot_be_had_does_not_end_the_service(manager):
    with contextlib.ExitStack() as held:
        assert host_service.show_running(held)
        with contextlib.ExitStack() as another:
            assert not host_service.show_running(another)
    with contextlib.ExitStack() as held:
        assert host_service.show_running(held)


def test_stopped_service_is_in_status_audit_metrics_and_what_networks_starts(manager, monkeypatch, capsys):
    monkeypatch.setattr(cli, "read_plan", lambda: PLAN)
    monkeypatch.setattr(cli, "read_host", lambda: {"node": "node1"})
    monkeypatch.setattr(cli, "parts", lambda _host, **_named: {})
    monkeypatch.setattr(cli, "stopped_of", lambda _plan: {})
    monkeypatch.setattr(cli, "stopped_daemons", list)
    monkeypatch.setattr(cli, "other_chassis", lambda _node, _plan: [])

    def shown(*verbs: str) -> tuple[int, str, str]:
        code = cli.main(list(verbs))
        return code, *capsys.readouterr()

    assert health.stopped_services(PLAN) == {"heddle-host": LINE}
    assert zone_result.missing_services(PLAN) == ["host"]
    assert 'heddle_daemon_up{unit="heddle-host"} 0\n' in shown("metrics")[1]
    assert LINE in shown("status")[1]
    assert shown("running") == (1, "", f"{LINE}\n")
    os.makedirs(os.path.dirname(host_service.HOST_SERVICE))
    with only_daemon(host_service.HOST_SERVICE):
        assert health.stopped_services(PLAN) == {}
        assert zone_result.missing_services(PLAN) == []
        assert 'heddle_daemon_up{unit="heddle-host"} 1\n' in shown("metrics")[1]
        assert LINE not in shown("status")[1]
        assert shown("running") == (0, "", "")


def test_networks_starts_every_service_that_a_host_may_lack(monkeypatch):
    units = ("heddle-mesh", "heddle-probes", "heddle-dns-names", "heddle-underlay")
    monkeypatch.setattr(zone_result, "services_of", lambda _plan: dict.fromkeys(units, lambda: False))
    monkeypatch.setattr(zone_result, "stopped_host_service", lambda *_any: {"heddle-host": "does not run"})
    (play,) = (
        play for play in yaml.safe_load(NETWORKS.read_text()) if play["name"] == "Start the services of the hosts"
    )
    started = {
        task["when"].partition(" ")[0].strip("'") for task in play["tasks"] if "ansible.builtin.include_role" in task
    }
    assert started == set(zone_result.missing_services(PLAN))
