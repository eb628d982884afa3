# SPDX-License-Identifier: Apache-2.0
"""An uninstallation that is cut off while it removes the state database is completed by the next one."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.change import Outcome
from ansible_collections.heddle.ovn.plugins.module_utils.uninstall import host_parts, removal, saved_state
from ansible_collections.heddle.ovn.plugins.module_utils.uninstall.record import Before


class CutOff(BaseException):
    """Stands for SIGKILL."""


class Host:
    """The state host, whose only part here is the database; `cut_off` is the step during which a run ends."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.database, self.socket, self.cut_off = root / "state" / "heddle.db", root / "heddle.sock", ""
        self.database.parent.mkdir()
        self.database.write_text("OVSDB JSON\n")
        self.socket.touch()
        monkeypatch.setattr(saved_state, "NOTE_FILE", str(root / "lib" / "state-saved.json"))
        monkeypatch.setattr(saved_state, "DATABASE_FILE", str(self.database))
        monkeypatch.setattr(removal, "STATE_DATABASE", str(self.database.parent))
        monkeypatch.setattr(host_parts, "STATE_DATABASE", str(self.database.parent))
        monkeypatch.setattr(removal, "_STATE_SOCKET", str(self.socket))
        monkeypatch.setattr(host_parts, "stop_own_unit", self._stop)
        for module, names in (
            (removal.network, ("remove_networks", "remove_ovn_rows", "remove_bridges")),
            (host_parts, ("restore_sysctls", "remove_own_files", "restore_units", "remove_users", "restore_files")),
            (host_parts, ("remove_library",)),
            (removal, ("remove_encryption",)),
        ):
            for name in names:
                monkeypatch.setattr(module, name, lambda *_any, **_named: Outcome())
        monkeypatch.setattr(removal.network, "foreign_ports", dict)
        monkeypatch.setattr(removal, "read_vms", dict)

    def _stop(self, unit: str, *, write: bool) -> Outcome:
        if unit == "heddle-state" and write:
            if self.cut_off == "before":
                raise CutOff
            self.socket.unlink(missing_ok=True)
            if self.cut_off == "after":
                raise CutOff
        return Outcome()

    def remove(self, databases: str = "remove") -> None:
        params = {"databases": databases, "packages": "keep"}
        removal._removed(params, Before(), ["heddle"], write=True)

    def blockers(self, databases: str = "remove") -> list[str]:
        params = {"node": "node1", "deployment": "heddle", "databases": databases, "remaining": []}
        return removal._blockers(params, {}, Before())


@pytest.fixture
def host(tmp_path, monkeypatch) -> Host:
    """A host whose state database runs, and was backed up."""
    return Host(tmp_path, monkeypatch)


@pytest.mark.parametrize("where", ["before", "after"])
def test_a_run_that_was_cut_off_when_it_stopped_the_database_is_completed(host, where):
    host.cut_off = where
    with pytest.raises(CutOff):
        host.remove()
    assert host.blockers() == []
    host.cut_off = ""
    host.remove()
    assert not host.database.parent.exists()
    assert not Path(saved_state.NOTE_FILE).exists()
    assert host.blockers() == []


def test_a_removal_of_the_directory_that_was_cut_off_is_completed(host):
    host.database.unlink()
    host.socket.unlink()
    assert host.blockers() == []


def test_a_stopped_database_that_was_not_backed_up_prevents_the_removal(host):
    host.socket.unlink()
    (line,) = host.blockers()
    assert "cannot be backed up" in line
    assert host.blockers("keep") == []


def test_a_database_that_was_written_to_after_the_run_prevents_the_next_one(host):
    host.cut_off = "after"
    with pytest.raises(CutOff):
        host.remove()
    host.database.write_text("OVSDB JSON\nanother record\n")
    assert len(host.blockers()) == 1


def test_a_database_that_is_kept_is_not_taken_for_backed_up(host):
    host.remove("keep")
    assert not host.socket.exists()
    assert len(host.blockers()) == 1


def test_a_forced_removal_of_a_stopped_database_notes_no_backup(host):
    host.socket.unlink()
    host.cut_off = "after"
    with pytest.raises(CutOff):
        host.remove()
    assert len(host.blockers()) == 1
