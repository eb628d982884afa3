# SPDX-License-Identifier: Apache-2.0
"""The program `heddle-host`: one file that needs only Python, with clear messages about missing parts."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.agent import cli
from ansible_collections.heddle.ovn.plugins.module_utils.agent.health.health_prober_cgroup import ProberCgroup
from ansible_collections.heddle.ovn.plugins.module_utils.agent.module_runner import UserError
from ansible_collections.heddle.ovn.plugins.module_utils.agent.service import components, event_loop, service
from ansible_collections.heddle.ovn.plugins.module_utils.agent.service.convergence import Converged
from ansible_collections.heddle.ovn.plugins.module_utils.agent.service.event_loop import Events
from ansible_collections.heddle.ovn.plugins.module_utils.common.change import Outcome
from ansible_collections.heddle.ovn.plugins.module_utils.program.zipapp import bundle


def test_zipapp_is_reproducible_and_self_contained(tmp_path: Path):
    program = tmp_path / "heddle-host"
    program.write_bytes(bundle())
    program.chmod(0o755)
    assert bundle() == program.read_bytes()
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(program), "--help"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "status" in done.stdout
    assert "watch" in done.stdout


def test_missing_installation_is_reported(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.setattr(components.read_host, "__defaults__", (str(tmp_path / "none.json"),))
    assert cli.main(["status"]) == cli.EXIT_FAILED
    assert "Run heddle.ovn.install, which writes it." in capsys.readouterr().err


class Database:
    """One end of a socket where Open_vSwitch's database would be."""

    def __init__(self, path: Path) -> None:
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(str(path))
        self.server.listen(1)
        self.path = path

    def accept(self) -> socket.socket:
        connection, _address = self.server.accept()
        return connection


@pytest.fixture
def database(tmp_path: Path):
    opened = Database(tmp_path / "db.sock")
    yield opened
    opened.server.close()


class HostNetworkChanges:
    """Stands for addresses and routes of this machine, which may change at any time; a byte is a change."""

    def __init__(self) -> None:
        self.near, self.far = socket.socketpair()

    def fileno(self) -> int:
        return self.near.fileno()

    def changed(self) -> bool:
        return bool(self.near.recv(1))


@pytest.fixture(autouse=True)
def host_network(monkeypatch):
    made = HostNetworkChanges()
    monkeypatch.setattr(event_loop, "host_network_monitor", lambda: made)
    yield made
    made.near.close()
    made.far.close()


def test_events_are_a_new_process_and_an_update_of_patch_ports_or_bridges(tmp_path: Path, database: Database):
    pid_file = tmp_path / "pid"
    pid_file.write_text("1")
    converged = [True]
    events = Events(str(pid_file), f"unix:{database.path}", lambda: converged[0])
    # Events before the connection are not reported, so the connection counts as a change.
    assert events.wait() == "ports changed"
    assert events.wait() is None
    connection = database.accept()
    assert b'"monitor_cond"' in connection.recv(4096)
    connection.sendall(b'{"id":"echo","method":"echo","params":[]}')
    assert events.wait() is None
    assert b'"id":"echo"' in connection.recv(4096)
    update = b'{"id":null,"method":"update2","params":["patch ports",{"Interface":{}}]}'
    connection.sendall(update)
    assert events.wait() == "ports changed"
    # Its ports go with a bridge, and more than those.
    connection.sendall(b'{"id":null,"method":"update2","params":["patch ports",{"Bridge":{},"Interface":{}}]}')
    assert events.wait() == "bridges changed"
    assert events.wait() is None
    # While a playbook brings a new plan it waits, and is not forgotten.
    converged[0] = False
    connection.sendall(update)
    assert events.wait() is None
    converged[0] = True
    assert events.wait() == "ports changed"
    pid_file.write_text(str(os.getpid()))
    assert events.wait() == "switch restarted"
    pid_file.unlink()
    assert events.wait() is None
    connection.close()
    assert events.wait() is None
    assert events.wait() == "ports changed"
    assert b'"monitor_cond"' in database.accept().recv(4096)


def test_an_event_is_also_a_prober_with_another_cgroup(tmp_path: Path, database: Database, monkeypatch):
    monkeypatch.setattr(event_loop, "ProberCgroup", lambda: ProberCgroup(tmp_path))
    events = Events(str(tmp_path / "pid"), f"unix:{database.path}", lambda: True)
    assert events.wait() == "ports changed"
    events.follow(frozenset(), "system.slice/prober.service")
    assert events.wait() is None
    (tmp_path / "system.slice" / "prober.service").mkdir(parents=True)
    assert events.wait() == "prober restarted"
    (tmp_path / "system.slice" / "prober.service").rmdir()
    assert events.wait() == "prober restarted"
    assert events.wait() is None


def test_an_event_is_also_an_address_or_a_route_of_the_host(tmp_path: Path, database: Database, host_network):
    events = Events(str(tmp_path / "pid"), f"unix:{database.path}", lambda: True)
    assert events.wait() == "ports changed"
    assert events.wait() is None
    host_network.far.send(b"1")
    assert events.wait() == "host network changed"
    assert events.wait() is None


class Scene:
    """The service with parts of the test's own; nothing of this machine."""

    def __init__(self, monkeypatch) -> None:
        self.now, self.happens, self.fails, self.done, self.reported = 0.0, [], {}, [], []
        self.refuses: dict[str, str] = {}
        self.notified = True
        self.followed: list[frozenset] = []
        self.probers: list[str] = []
        self.notes: dict[str, tuple[str, ...]] = {}
        self.host = {"node": "n", "chassis": 1}
        monkeypatch.setattr(service.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(service, "read_host", lambda: self.host)
        monkeypatch.setattr(service, "attached_uplinks", lambda host: frozenset([str(host["chassis"])]))
        monkeypatch.setattr(service, "prober_cgroup", lambda host: f"prober-{host['chassis']}")
        monkeypatch.setattr(service, "host_version", lambda: (1, self.host["chassis"]))
        monkeypatch.setattr(service, "only_writer", lambda write: contextlib.nullcontext())
        monkeypatch.setattr(service, "say", self.reported.append)
        monkeypatch.setattr(service, "notify_systemd", lambda text: self.reported.append(text) or self.notified)
        monkeypatch.setattr(service, "parts", self.parts)
        self.moving = False
        monkeypatch.setattr(service, "is_moving", lambda: self.moving)
        self.reconciler = service.Reconciler(self)

    def parts(self, host: dict, *, write: bool) -> dict:
        def part(name):
            if name in self.fails:
                raise UserError(self.fails[name])
            self.done.append((name, host["chassis"]))
            if name in self.refuses:
                return Outcome(refused=(("red", self.refuses[name]),))
            return Outcome(notes=self.notes.get(name, ()))

        return {name: functools.partial(part, name) for name in components.PARTS}

    def wait(self) -> str | None:
        self.now += 0.1
        return self.happens.pop(0) if self.happens else None

    def follow(self, uplinks: frozenset, prober: str) -> None:
        self.followed.append(uplinks)
        self.probers.append(prober)

    def run(self, seconds: float) -> list:
        """Return what was applied meanwhile."""
        self.done = []
        end = self.now + seconds
        while self.now < end:
            self.reconciler.step()
        return self.done


@pytest.fixture
def scene(monkeypatch) -> Scene:
    return Scene(monkeypatch)


def test_service_applies_all_parts_once_and_notifies_readiness(scene):
    assert scene.run(100) == [(name, 1) for name in components.PARTS]
    assert [text for text in scene.reported if "READY=1" in text] == scene.reported


def test_failed_part_is_retried_with_backoff_and_logged_once(scene):
    scene.fails["gateway"] = "no bridge"
    assert scene.run(1) == [("chassis", 1), ("topology", 1), ("workloads", 1), ("routed", 1)]
    assert scene.run(600) == []
    attempts = [text for text in scene.reported if text.startswith("STATUS=gateway: no bridge")]
    assert 50 < len(attempts) < 80
    assert [text for text in scene.reported if "STATUS" not in text] == ["gateway: no bridge; trying again"]
    del scene.fails["gateway"]
    assert scene.run(11) == [("gateway", 1)]
    assert scene.reported[-1].endswith("READY=1")


def test_a_status_is_cut_to_what_systemd_reads_and_readiness_is_never_lost(scene):
    scene.refuses["gateway"] = "ä route\n" * 100_000
    scene.run(1)
    scene.refuses.clear()
    scene.notes["gateway"] = ("a note\n" * 100_000,)
    scene.run(11)
    sent = [text for text in scene.reported if text.startswith("STATUS=")]
    assert max(len(text.encode()) for text in sent) < 4096
    assert sent[0].startswith("STATUS=gateway: network red: ä route ä route ")
    assert sent[0].endswith(" ... (all of it is in the journal)")
    assert sent[-1].endswith("journal)\nREADY=1")


def test_readiness_that_could_not_be_notified_is_notified_later(scene):
    scene.notified = False
    scene.run(1)
    scene.notified = True
    assert scene.run(11) == [(name, 1) for name in components.PARTS]
    assert [text.endswith("\nREADY=1") for text in scene.reported] == [True, True]


def test_a_notification_that_cannot_be_sent_is_logged_and_ends_nothing(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "none"))
    assert service.notify_systemd("READY=1") is False
    assert capsys.readouterr().err == f"the service manager at {tmp_path}/none: [Errno 2] No such file or directory\n"


def test_events_wait_for_the_end_of_a_move_of_addresses(scene):
    scene.run(1)
    scene.moving, scene.happens = True, ["kernel changed", "host network changed"]
    assert scene.run(60) == []
    scene.moving = False
    assert scene.run(1) == [("chassis", 1), ("gateway", 1), ("routed", 1)]


def test_lost_flows_and_failed_parts_do_not_wait_for_a_move(scene):
    scene.fails["workloads"] = "no namespace"
    scene.run(1)
    scene.moving, scene.happens = True, ["kernel changed"]
    assert ("gateway", 1) in scene.run(1)
    scene.fails.clear()
    scene.run(60)
    scene.happens = ["kernel changed", "switch restarted"]
    assert scene.run(1) == [("chassis", 1), ("gateway", 1), ("workloads", 1), ("routed", 1)]


def test_part_with_a_refused_network_is_retried_and_others_are_applied(scene):
    scene.refuses["gateway"] = "a foreign route"
    assert scene.run(1) == [(name, 1) for name in components.PARTS]
    assert [text for text in scene.reported if "STATUS" not in text] == [
        "gateway: network red: a foreign route; trying again"
    ]
    assert ("gateway", 1) in scene.run(3)
    scene.refuses.clear()
    scene.run(11)
    assert scene.reported[-1].endswith("READY=1")


def test_service_uses_new_arguments_after_install(scene):
    scene.run(1)
    scene.host = {"node": "n", "chassis": 2}
    scene.happens = ["switch restarted"]
    assert scene.run(1) == [("chassis", 2), ("gateway", 2), ("workloads", 2)]
    assert scene.followed == [{"1"}, {"2"}]


def test_the_service_watches_what_a_new_file_of_the_host_names_without_any_event(scene):
    scene.run(1)
    scene.host = {"node": "n", "chassis": 2}
    assert scene.run(1) == []
    assert (scene.followed[-1], scene.probers[-1]) == ({"2"}, "prober-2")


@pytest.mark.parametrize(
    ("event", "parts"), [("prober restarted", ["gateway"]), ("host network changed", ["chassis", "gateway"])]
)
def test_the_gateways_follow_the_prober_and_the_host_s_network(scene, event, parts):
    scene.run(1)
    scene.happens = [event]
    assert scene.run(0.3) == [(name, 1) for name in parts]


def test_a_note_does_not_keep_the_service_from_being_ready_and_is_in_its_status_until_it_is_gone(scene):
    scene.notes["gateway"] = ("the cgroup is missing",)
    scene.run(100)
    assert scene.reported == ["the cgroup is missing", "STATUS=This host is as planned. the cgroup is missing\nREADY=1"]
    scene.happens = ["ports changed"]
    scene.run(1)
    assert scene.reported[2:] == ["ports changed", "STATUS=This host is as planned. the cgroup is missing"]
    scene.notes.clear()
    scene.happens = ["prober restarted"]
    scene.run(1)
    assert scene.reported[-1] == "STATUS=This host is as planned."


def test_removed_kernel_objects_are_restored(scene):
    scene.run(1)
    scene.happens = ["kernel changed"]
    assert scene.run(0.3) == [("chassis", 1), ("gateway", 1), ("routed", 1)]


def test_an_event_does_not_wait_for_the_next_attempt(scene):
    scene.fails["chassis"] = "a leased address"
    scene.run(100)
    del scene.fails["chassis"]
    scene.happens = ["uplink changed"]
    assert scene.run(0.3) == [("chassis", 1), ("gateway", 1)]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"digest": "1"}'])
def test_damaged_plan_is_reported_and_uplinks_are_kept(tmp_path: Path, monkeypatch, text):
    plan = tmp_path / "plan.json"
    plan.write_text(text)
    monkeypatch.setattr(components, "PLAN_FILE", str(plan))
    found = components.parts({"node": "n", "chassis": {}}, write=True)
    assert list(found) == list(components.PARTS)
    for name in ("topology", "gateway", "workloads"):
        with pytest.raises(UserError, match=r"heddle.ovn.networks, which writes it"):
            found[name]()
    assert Converged(str(plan))() is False


@pytest.mark.parametrize(
    ("provider", "reported"), [(None, "br-ex"), ({"bridge": "br-new"}, "br-ex"), ({"bridge": "br-ex"}, ""), (None, "")]
)
def test_gateways_are_not_awaited_between_install_and_networks(tmp_path: Path, monkeypatch, provider, reported):
    plan = {"deployment": "", "digest": "", "networks": {}, "revision": 1, "settings": {}, "workloads": {}}
    plan["nodes"] = {"n": {"gateway": {"bridge": reported} if reported else None}}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    monkeypatch.setattr(components, "PLAN_FILE", str(tmp_path / "plan.json"))
    monkeypatch.setattr(components, "apply_gateway", lambda share, plan: Outcome())
    found = components.parts({"node": "n", "chassis": {"provider": provider}}, write=True)
    if reported:
        with pytest.raises(UserError, match=r"heddle.ovn.networks"):
            found["gateway"]()
    else:
        assert not found["gateway"]().changed


@pytest.mark.parametrize("text", ["", "[]", '{"node": "n"}'])
def test_damaged_host_file_is_reported(tmp_path: Path, text):
    path = tmp_path / "host.json"
    path.write_text(text)
    with pytest.raises(UserError, match=r"heddle.ovn.install, which writes it"):
        components.read_host(str(path))
