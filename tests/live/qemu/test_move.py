# SPDX-License-Identifier: Apache-2.0
"""A VM moves between two real QEMUs on loopback; one of them is stopped or killed at critical points."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import threading
from functools import partial
from pathlib import Path

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.agent.module_runner import UserError
from ansible_collections.heddle.ovn.plugins.module_utils.operations import migration
from ansible_collections.heddle.ovn.plugins.module_utils.qemu import instance
from ansible_collections.heddle.ovn.plugins.module_utils.qemu.credentials import GROUP_FILE, KEY_FILE
from ansible_collections.heddle.ovn.plugins.module_utils.qemu.qmp import Qmp, QmpAbsent, QmpError
from tests.live.conftest import START_TIMEOUT, wait_for

PARAMETERS = {"workload": "red/vm", "address": "127.0.0.1", "downtime_limit": 150, "timeout": 60}
WAITING = ("-incoming", "defer")


class End:
    """One host's QEMU; a VM without a processor moves as any other does and needs no firmware."""

    def __init__(self, tools, runtime: Path, *arguments: str) -> None:
        self.runtime = runtime
        directory = runtime / "red_vm"
        directory.mkdir(parents=True)
        command = tools.command(
            "qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none", "-machine", "none",
            "-m", "16", "-qmp", f"unix:{directory}/qmp,server=on,wait=off", *arguments,
        )  # fmt: skip
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        wait_for(self.answers, "QEMU", self.process)

    def answers(self) -> bool:
        """Return whether QEMU accepts connections: its socket is there a moment before that."""
        try:
            self.ask("query-status")
        except QmpAbsent:
            return False
        return True

    def ask(self, command: str, arguments: dict | None = None) -> dict:
        """Ask QEMU over its control socket."""
        with Qmp(str(self.runtime / "red_vm" / "qmp")) as vm:
            return vm.execute(command, arguments)

    def status(self) -> str:
        """What it does with the VM."""
        return self.ask("query-status")["status"]


@pytest.fixture
def begin_end(tools, folder):
    """A function `(name, *arguments) -> End`; the ends are over with the test."""
    ends = []

    def begin_one(name: str, *arguments: str) -> End:
        ends.append(End(tools, folder / name, *arguments))
        return ends[-1]

    yield begin_one
    for end in ends:
        end.process.kill()
        end.process.wait()


@pytest.fixture
def source(begin_end) -> End:
    """Where the VM runs."""
    return begin_end("source")


@pytest.fixture
def target(begin_end) -> End:
    """Where it is to run."""
    return begin_end("target", *WAITING)


@pytest.fixture
def on(monkeypatch):
    """A function `(end, function, parameters)` that runs a function on the host of an end."""
    monkeypatch.setattr(instance, "user_id", os.getuid)
    sockets = threading.local()
    monkeypatch.setattr(instance, "socket_of", lambda name, which="qmp": str(sockets.runtime / name / which))

    def run(end: End, function, parameters: dict) -> dict:
        sockets.runtime = end.runtime
        return function(PARAMETERS | parameters)

    return run


class Sending(threading.Thread):
    """The move, under way."""

    def __init__(self, on, source: End, listening: dict) -> None:
        super().__init__()
        self.on, self.source, self.listening = on, source, listening
        self.reported: dict | UserError | None = None
        self.start()

    def run(self) -> None:
        """Migrate it and keep the result."""
        try:
            self.reported = self.on(self.source, migration.send, self.listening)
        except UserError as failure:
            self.reported = failure


def begin(on, source: End, target: End) -> Sending:
    """Begin a migration that pauses before the switch-over, until `go_on`."""
    pause = {"capability": "pause-before-switchover", "state": True}
    source.ask("migrate-set-capabilities", {"capabilities": [pause]})
    sending = Sending(on, source, on(target, migration.receive, {}))
    wait_for(lambda: source.ask("query-migrate").get("status") == "pre-switchover", "the end of what goes ahead")
    return sending


def go_on(source: End) -> None:
    """Let it switch over."""
    source.ask("migrate-continue", {"state": "pre-switchover"})


def test_vm_runs_on_the_target_when_the_migration_returns(on, source, target):
    listening = on(target, migration.receive, {})
    assert on(target, migration.receive, {}) == {**listening, "changed": False}
    reported = on(source, migration.send, listening)
    assert (target.status(), source.status()) == ("running", "postmigrate")
    assert reported["changed"]
    assert reported["transferred_bytes"] > 0
    assert 0 <= reported["downtime_ms"] <= reported["total_ms"]
    assert on(source, migration.send, listening) == reported
    with pytest.raises(UserError, match="does not wait for a migration on this host; it is running here"):
        on(target, migration.receive, {})


def test_second_migration(on, source, target, begin_end):
    on(source, migration.send, on(target, migration.receive, {}))
    third = begin_end("third", *WAITING)
    on(target, migration.send, on(third, migration.receive, {}))
    assert [end.status() for end in (source, target, third)] == ["postmigrate", "postmigrate", "running"]


def test_target_does_not_search_a_prime_before_it_listens(on, begin_end, folder):
    """During the search QEMU does not serve QMP; its trace names where the group comes from."""
    log = folder / "trace"
    target = begin_end("target", *WAITING, "-D", str(log), "-trace", "qcrypto_tls_creds_load_dh")
    on(target, migration.receive, {})
    assert str(target.runtime / "red_vm" / GROUP_FILE) in log.read_text()


def test_sender_without_the_key_is_rejected(on, source, target):
    listening = on(target, migration.receive, {})
    with pytest.raises(UserError, match="was not migrated and runs here"):
        on(source, migration.send, {**listening, "key": "0" * 64})
    assert source.status() == "running"


def test_vm_stays_on_the_source_when_the_target_dies_while_loading(on, source, target):
    sending = begin(on, source, target)
    target.process.send_signal(signal.SIGSTOP)
    go_on(source)
    wait_for(lambda: source.ask("query-migrate")["status"] in ("device", "completed"), "the switch-over")
    target.process.kill()
    sending.join(START_TIMEOUT)
    assert "and runs here" in str(sending.reported)
    assert source.status() == "running"


def test_cancelled_migration_continues_on_the_source(on, source, target):
    sending = begin(on, source, target)
    assert on(source, migration.complete, {}) == {"changed": True}
    sending.join(START_TIMEOUT)
    assert "and runs here" in str(sending.reported)
    assert source.status() == "running"
    assert not (source.runtime / "red_vm" / KEY_FILE).exists()
    assert on(source, migration.complete, {}) == {"changed": False}


def test_switch_over_is_awaited(on, source, target, monkeypatch):
    sending = begin(on, source, target)
    target.process.send_signal(signal.SIGSTOP)
    go_on(source)
    wait_for(lambda: source.ask("query-migrate")["status"] == "device", "the switch-over")
    finished = migration._finished

    def waiting(*arguments) -> dict:
        target.process.send_signal(signal.SIGCONT)
        return finished(*arguments)

    monkeypatch.setattr(migration, "_finished", waiting)
    assert on(source, migration.complete, {}) == {"changed": True}
    assert (target.status(), source.status()) == ("running", "postmigrate")
    sending.join(START_TIMEOUT)


def test_silent_qemu_is_not_reported_as_absent(on, source, monkeypatch):
    monkeypatch.setattr(instance, "Qmp", partial(Qmp, timeout=0.1))

    def status(_parameters: dict) -> str:
        return instance.status("red_vm")

    source.process.send_signal(signal.SIGSTOP)
    assert on(source, status, {}) == "silent"
    source.process.kill()
    source.process.wait()
    assert on(source, status, {}) == "absent"
    assert on(source, migration.complete, {}) == {"changed": False}


def test_slow_source_is_awaited(on, source, target, monkeypatch):
    answered, silent = threading.Event(), threading.Event()

    class Impatient(Qmp):
        def __init__(self, path):
            try:
                super().__init__(path, timeout=0.1)
            except QmpError:
                silent.set()
                raise
            answered.set()

    sending = begin(on, source, target)
    monkeypatch.setattr(migration, "Qmp", Impatient)
    # A connection from before waits for an answer as long as the source is stopped.
    assert answered.wait(START_TIMEOUT)
    source.process.send_signal(signal.SIGSTOP)
    assert silent.wait(START_TIMEOUT)
    source.process.send_signal(signal.SIGCONT)
    go_on(source)
    sending.join(START_TIMEOUT)
    assert sending.reported["changed"]
    assert (target.status(), source.status()) == ("running", "postmigrate")


@pytest.mark.parametrize(
    "cut_off", [b'{"execute": "query-version"}', b'{"execute": "qmp_capabilities"} {"execute": "query-version"}']
)
def test_answers_to_a_client_that_was_cut_off_are_not_taken_for_own_ones(source, cut_off):
    """QEMU reads the commands of a client that is gone when it runs again; it may answer them to the next client."""
    for _time in range(1000):
        with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as gone:
            gone.connect(str(source.runtime / "red_vm" / "qmp"))
            if b"capabilities" not in cut_off:
                gone.sendall(b'{"execute": "qmp_capabilities"}')
                received = b""
                while b'"return"' not in received:
                    received += gone.recv(4096)
            source.process.send_signal(signal.SIGSTOP)
            gone.sendall(cut_off)
        source.process.send_signal(signal.SIGCONT)
        assert "status" in source.ask("query-status")


def test_pending_migration_is_joined_by_the_next_run(on, source, target):
    first = begin(on, source, target)
    second = Sending(on, source, on(target, migration.receive, {}))
    go_on(source)
    first.join(START_TIMEOUT)
    second.join(START_TIMEOUT)
    assert first.reported == second.reported
    assert (target.status(), source.status()) == ("running", "postmigrate")
