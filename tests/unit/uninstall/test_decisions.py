# SPDX-License-Identifier: Apache-2.0
"""What an uninstallation removes of packages, kernel settings, units and files, and what prevents it."""

from __future__ import annotations

import errno
import os

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.errors import EngineError
from ansible_collections.heddle.ovn.plugins.module_utils.uninstall import host_parts
from ansible_collections.heddle.ovn.plugins.module_utils.uninstall.blockers import blockers
from ansible_collections.heddle.ovn.plugins.module_utils.uninstall.footprint import Footprint
from ansible_collections.heddle.ovn.plugins.module_utils.uninstall.packages import chosen, remove_packages
from ansible_collections.heddle.ovn.plugins.module_utils.uninstall.record import Before, Section

BEFORE = Before([Section("node", installed=("bash", "libold"), manual=("bash",), requested=("ovn-host", "nftables"))])


def test_dependencies_of_other_packages_stay():
    going = chosen(
        ["ovn-host"],
        alone={"ovn-host"},
        with_orphans={"ovn-host", "ovn-common", "libold", "orphan"},
        orphans_before={"orphan"},
        before=BEFORE,
    )
    assert going == ["ovn-common", "ovn-host"]


class Apt:
    """apt-get that would remove `ovn-ic` of the user's with ovn-host."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def __call__(self, argv: list[str], _text: str = "") -> str:
        if argv[0] == "dpkg-query":
            return "".join(f"installed {name}\n" for name in ("bash", "ovn-host", "nftables", "ovn-ic"))
        if argv[0] == "apt-mark":
            return "bash\novn-host\novn-ic\n"
        self.calls.append(argv)
        going = [name for name in argv if name in ("ovn-host", "nftables")]
        return "".join(f"Purg {name} [1.0]\n" for name in going + ["ovn-ic"] * ("ovn-host" in going))


def test_package_that_a_users_package_needs_stays():
    apt = Apt()
    outcome = remove_packages(BEFORE, write=True, run=apt)
    assert [change.name for change in outcome.changes] == ["nftables"]
    assert "ovn-host stays, although Heddle installed it: ovn-ic needs it" in outcome.notes[0]
    assert apt.calls[-1][-2:] == ["purge", "nftables"]


def test_check_mode_only_simulates():
    apt = Apt()
    assert remove_packages(BEFORE, write=False, run=apt).changed
    assert all("--simulate" in call for call in apt.calls)


def test_dependency_that_a_role_asked_for_is_marked_as_such_again():
    section = Section("state", installed=("bash", "nftables"), manual=("bash",), requested=("bash", "nftables"))
    calls = []

    def run(argv: list[str], _text: str = "") -> str:
        calls.append(argv)
        return {"dpkg-query": "installed bash\ninstalled nftables\n"}.get(argv[0], "bash\nnftables\n")

    outcome = remove_packages(Before([section]), write=True, run=run)
    assert [str(change) for change in outcome.changes] == ["update host package nftables"]
    assert calls[-1] == ["apt-mark", "auto", "nftables"]


def test_without_record_packages_stay():
    assert not remove_packages(Before(), write=True, run=Apt()).changed


def test_settings_that_a_user_changed_since_stay(tmp_path):
    was = {f"net/ipv6/conf/{name}/forwarding": "0" for name in ("all", "eth0", "gone")}
    was["net/ipv6/conf/eth0/accept_ra"] = "0"
    for name, value in (("all/forwarding", "1"), ("eth0/forwarding", "0"), ("eth0/accept_ra", "1")):
        path = tmp_path / "net/ipv6/conf" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{value}\n")
    before = Before([Section("node", sysctls=was)])
    for write in (False, True):
        outcome = host_parts.restore_sysctls(before, write=write, root=str(tmp_path))
        assert [change.name for change in outcome.changes] == ["net/ipv6/conf/all/forwarding"]
    assert not host_parts.restore_sysctls(before, write=True, root=str(tmp_path)).changed


class Systemd:
    """systemctl with units that are enabled and active until they are stopped."""

    def __init__(self) -> None:
        self.units = {"ovn-host": ["enabled", "active"], "ovsdb-server": ["static", "active"]}

    def __call__(self, argv: list[str], _text: str = "") -> str:
        name = argv[-1].removesuffix(".service")
        if argv[1] == "show":
            return "LoadState=loaded\nUnitFileState={}\nActiveState={}\n".format(*self.units[name])
        place, value = {"disable": (0, "disabled"), "stop": (1, "inactive")}[argv[1]]
        self.units[name][place] = value
        return ""


@pytest.mark.parametrize(
    ("was", "then"),
    [
        (["disabled", "inactive"], ["disabled", "inactive"]),
        (["not-found", "inactive"], ["disabled", "inactive"]),
        (["enabled", "active"], ["enabled", "active"]),
        (["enabled", "inactive"], ["enabled", "inactive"]),
    ],
)
def test_units_are_as_before(was, then):
    systemd, before = Systemd(), Before([Section("node", units={"ovn-host": was, "ovsdb-server": was})])
    host_parts.restore_units(before, ovn=True, write=True, run=systemd)
    assert systemd.units["ovn-host"] == then
    assert systemd.units["ovsdb-server"] == ["static", "active"]
    assert not host_parts.restore_units(before, ovn=True, write=True, run=systemd).changed


def test_nothing_prevents_the_removal_of_an_empty_host():
    assert blockers("node3") == []


@pytest.mark.parametrize(
    ("found", "text"),
    [
        ({"workloads": ["red/w1"]}, "node3 has 1 workload (red/w1): give them another node"),
        ({"workloads": [f"red/w{n}" for n in range(7)]}, "red/w4 and 2 more)"),
        ({"virtual_machines": ["red-vm"]}, "node3 runs 1 virtual machine (red-vm): move them"),
        ({"remaining": ["node1", "node2"]}, "node1, node2 would be left without one"),
        ({"unsaved": True}, "it cannot be backed up"),
        ({"foreign_ports": {"br-ex": ["vnet0"]}}, "ovs-vsctl del-port br-ex vnet0"),
        ({"foreign_bridges": ["br-user"]}, "ovs-vsctl del-br br-user"),
    ],
)
def test_each_reason_is_a_line_with_the_remedy(found, text):
    (line,) = blockers("node3", **found)
    assert text in line
    assert "\n" not in line
    assert "heddle_uninstall_force=true" in line


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    """A file of other software that Heddle has changed, and what it was before."""
    file = tmp_path / "system-id.conf"
    file.write_text("changed\n")
    monkeypatch.setattr(host_parts, "FOOTPRINTS", {"node": Footprint(sign="", own=(), shared=(str(file),))})
    return file, Before([Section("node", paths={str(file): "before\n"})])


def test_a_file_that_cannot_be_restored_is_an_error_and_restored_by_the_next_run(recorded, monkeypatch):
    file, before = recorded

    def full(*_arguments, **_named):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch, pytest.raises(EngineError, match=f"{file} cannot be restored: No space left"):
        patch.setattr(host_parts, "replace_file", full)
        host_parts.restore_files(before, write=True)
    assert [change.name for change in host_parts.restore_files(before, write=True).changes] == [str(file)]
    assert file.read_text() == "before\n"
    assert not host_parts.restore_files(before, write=True).changed


def test_a_file_with_bytes_that_are_no_text_is_restored_and_a_missing_one_stays_away(recorded):
    file, before = recorded
    file.write_bytes(b"\xff\xfe")
    assert host_parts.restore_files(before, write=True).changed
    assert file.read_text() == "before\n"
    file.unlink()
    assert not host_parts.restore_files(before, write=True).changed
    assert not file.exists()
