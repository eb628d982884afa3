# SPDX-License-Identifier: Apache-2.0
"""What the engine does with a VM that it finds; systemd is not asked."""

from __future__ import annotations

import errno
import os
import pwd
import socket
import threading

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.errors import NetlinkError
from ansible_collections.heddle.ovn.plugins.module_utils.qemu import instance
from ansible_collections.heddle.ovn.plugins.module_utils.qemu.credentials import KEY_FILE, read_key
from ansible_collections.heddle.ovn.plugins.module_utils.qemu.qmp import QmpError, wait_for
from ansible_collections.heddle.ovn.plugins.module_utils.qemu.reconcile import (
    arguments,
    end_vms,
    reconcile_vms,
)
from ansible_collections.heddle.ovn.plugins.module_utils.types.virtual_machine import Nic, VirtualMachine

NIC = Nic("tap0", "0a:58:0a:00:00:05", 1400, "net")


def vm(role):
    return VirtualMachine("red_vm", 96, (NIC,), role)


@pytest.fixture
def host(tmp_path, monkeypatch):
    """A host that has the VM with some marks; `lives` says whether its QEMU does."""
    monkeypatch.setattr(instance, "RUNTIME", tmp_path)
    monkeypatch.setattr(instance, "ready", lambda: True)

    def make(*marks, lives=True, owner="heddle"):
        monkeypatch.setattr(instance, "_systemctl", lambda *_words, check=True: 0 if lives else 3)
        (tmp_path / "red_vm").mkdir()
        (tmp_path / "red_vm" / "owner").write_text(f"{owner}\n")
        (tmp_path / "red_vm" / "arguments").write_text(f"HEDDLE_ARGUMENTS={arguments(vm('run'))}\n")
        for mark in marks:
            (tmp_path / "red_vm" / mark).touch()
        return tmp_path / "red_vm"

    return make


@pytest.mark.parametrize(
    ("role", "marks", "lives", "actions"),
    [
        ("run", [], True, []),
        ("run", [], False, ["create"]),
        ("run", ["moving"], True, ["update"]),
        ("run", ["incoming"], True, ["update"]),
        ("source", [], True, ["update"]),
        ("source", ["moving"], True, []),
        ("source", ["moving"], False, []),
        ("target", ["incoming"], True, []),
        ("target", [], False, ["create"]),
        ("target", [], True, ["update"]),
        ("target", ["moving"], True, ["update"]),
    ],
)
def test_vm_actions(host, role, marks, lives, actions):
    host(*marks, lives=lives)
    outcome = reconcile_vms([vm(role)], owner="heddle", write=False)
    assert [change.action for change in outcome.changes] == actions


@pytest.mark.parametrize(("mark", "status"), [("incoming", "inmigrate"), ("moving", "postmigrate")])
def test_vm_lost_in_migration_is_started_anew_on_its_node(host, monkeypatch, mark, status):
    directory = host(mark)
    monkeypatch.setattr(instance, "status", lambda _name: status)
    monkeypatch.setattr(instance, "wait_for", lambda *_arguments: None)
    monkeypatch.setattr(instance.pwd, "getpwnam", lambda _name: pwd.getpwuid(os.getuid()))
    asked = []
    monkeypatch.setattr(instance, "_systemctl", lambda verb, *_words, check=True: asked.append(verb) or 0)
    reconcile_vms([vm("run")], owner="heddle", write=True)
    assert [verb for verb in asked if verb in ("stop", "start")] == ["stop", "start"]
    assert not (directory / mark).exists()
    assert not reconcile_vms([vm("run")], owner="heddle", write=True).changed


def test_migrating_vm_is_not_restarted(host):
    directory = host()
    for role, marked in (("source", True), ("run", False)):
        assert reconcile_vms([vm(role)], owner="heddle", write=True).changed
        assert (directory / "moving").exists() is marked
        assert not reconcile_vms([vm(role)], owner="heddle", write=True).changed


def test_absent_vm_of_a_migration_is_not_marked(tmp_path, monkeypatch):
    monkeypatch.setattr(instance, "RUNTIME", tmp_path)
    monkeypatch.setattr(instance, "ready", lambda: True)
    assert not reconcile_vms([vm("source")], owner="heddle", write=True).changed


def test_foreign_vms_are_not_stopped(host):
    host(owner="another-owner")
    assert not end_vms([], owner="heddle", write=False).changed
    assert end_vms([], owner="another-owner", write=False).changed


def test_a_machine_that_has_ended_is_not_waited_for(tmp_path):
    """A busy host may need minutes until QEMU answers, and one that has failed never does."""
    with pytest.raises(QmpError, match="QEMU has ended"):
        wait_for(str(tmp_path / "qmp"), lambda _machine: True, 600.0, lambda: True)


@pytest.fixture
def started(tmp_path, monkeypatch):
    """A host whose systemd starts VMs at once."""
    monkeypatch.setattr(instance, "RUNTIME", tmp_path / "run")
    monkeypatch.setattr(instance, "ready", lambda: True)
    monkeypatch.setattr(instance, "wait_for", lambda *_arguments: None)
    monkeypatch.setattr(instance.pwd, "getpwnam", lambda _name: pwd.getpwuid(os.getuid()))
    running = set()

    def systemctl(verb, *words, check=True):
        if verb == "start":
            running.add(words[-1])
        return 0 if verb != "is-active" or words[-1] in running else 3

    monkeypatch.setattr(instance, "_systemctl", systemctl)
    return tmp_path / "run"


def test_a_creation_on_a_full_file_system_is_completed(started, monkeypatch):
    def full(*_arguments, **_named):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch, pytest.raises(NetlinkError, match="No space left"):
        patch.setattr("os.replace", full)
        reconcile_vms([vm("run")], owner="heddle", write=True)
    assert reconcile_vms([vm("run")], owner="heddle", write=True).changed
    assert not reconcile_vms([vm("run")], owner="heddle", write=True).changed


@pytest.mark.parametrize("role", ["run", "target"])
def test_an_empty_owner_is_a_creation_that_was_cut_off(started, role):
    (started / "red_vm").mkdir(parents=True)
    (started / "red_vm" / "owner").touch()
    assert [change.action for change in reconcile_vms([vm(role)], owner="heddle", write=True).changes] == ["create"]
    assert not reconcile_vms([vm(role)], owner="heddle", write=True).changed
    (started / "red_vm" / "owner").write_text("")
    assert end_vms([], owner="heddle", write=True).changed
    assert not (started / "red_vm").exists()


def test_links_of_qemu_are_not_followed(started, tmp_path):
    """QEMU's user owns the directory, and root writes the files."""
    secret = tmp_path / "secret"
    secret.write_text("root's\n")
    names = ("owner", "arguments", "incoming", "moving", KEY_FILE)
    (started / "red_vm").mkdir(parents=True)
    for name in names:
        (started / "red_vm" / name).symlink_to(secret)
    assert instance.read_vms() == {}
    with pytest.raises(OSError, match="symbolic"):
        read_key(started / "red_vm")
    reconcile_vms([vm("target")], owner="heddle", write=True)
    for name in ("moving", "absent"):
        (started / "red_vm" / "moving").unlink(missing_ok=True)
        (started / "red_vm" / "moving").symlink_to(tmp_path / name)
        instance.note_moving("red_vm")
        assert not (started / "red_vm" / "moving").is_symlink()
    assert secret.read_text() == "root's\n"
    assert not (tmp_path / "absent").exists()


def test_pipes_of_qemu_are_not_waited_for(started):
    (started / "red_vm").mkdir(parents=True)
    os.mkfifo(started / "red_vm" / "owner")
    assert instance.read_vms() == {}


@pytest.mark.parametrize("answer", [b'{"QMP": {"version"', b"\xff\xfe\n", b"[]\n", b"7\n", b""])
def test_a_machine_that_answers_no_object_is_silent(tmp_path, monkeypatch, answer):
    monkeypatch.setattr(instance, "RUNTIME", tmp_path)
    (tmp_path / "red_vm").mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(instance.socket_of("red_vm"))
        server.listen()

        def serve():
            connection, _address = server.accept()
            with connection:
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        assert instance.status("red_vm") == "silent"
        thread.join()
