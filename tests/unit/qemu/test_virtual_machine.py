# SPDX-License-Identifier: Apache-2.0
"""What the engine does with a VM that it finds; systemd is not asked."""

from __future__ import annotations

import os
import pwd

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.qemu import instance
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
