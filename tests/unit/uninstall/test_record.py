# SPDX-License-Identifier: Apache-2.0
"""The record of a host is made once, before the first change, and only grows by what was not named before."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.errors import EngineError, NotInstalled
from ansible_collections.heddle.ovn.plugins.module_utils.uninstall import record
from ansible_collections.heddle.ovn.plugins.module_utils.uninstall.record import (
    Before,
    Section,
    keep_record,
    read_record,
)


class Host:
    """Answers of the programs that a record is made from."""

    def __init__(self) -> None:
        self.installed, self.manual = ["bash", "nftables"], ["bash"]

    def __call__(self, argv: list[str], _text: str = "") -> str:
        if argv[0] == "dpkg-query":
            return "".join(f"installed {name}\n" for name in self.installed) + "config-files gone\n"
        if argv[0] == "apt-mark":
            return "\n".join(self.manual)
        if argv[0] == "systemctl":
            return "LoadState=not-found\nUnitFileState=\nActiveState=inactive\n"
        raise NotInstalled(argv[0], "is not installed")


@pytest.fixture(autouse=True)
def not_this_machine(monkeypatch):
    monkeypatch.setattr(record, "_vswitch", lambda: None)
    monkeypatch.setattr(record.os.path, "exists", lambda path: False)


def test_record_is_made_once(tmp_path):
    path, host = str(tmp_path / "heddle" / "before.json"), Host()
    assert keep_record("node", ["nftables=1.*", "ovn-host"], ["lo"], write=True, path=path, run=host).changed
    host.installed += ["ovn-host", "ovn-common"]
    assert not keep_record("node", ["nftables=2.*", "ovn-host"], ["lo"], write=True, path=path, run=host).changed
    before = read_record(path)
    assert before.requested == ["ovn-host"]
    assert before.of("node").units["ovn-host"] == ["not-found", "inactive"]
    assert before.of("node").interfaces["lo"]["up"]


def test_later_runs_add_packages(tmp_path):
    path, host = str(tmp_path / "before.json"), Host()
    keep_record("node", ["ovn-host"], [], write=True, path=path, run=host)
    host.installed += ["ovn-host"]
    assert keep_record("node", ["ovn-host", "libjemalloc2", "bash"], [], write=True, path=path, run=host).changed
    assert read_record(path).requested == ["libjemalloc2", "ovn-host"]
    assert "ovn-host" not in read_record(path).of("node").installed


def test_later_runs_add_settings_that_an_earlier_release_did_not_change(tmp_path, monkeypatch):
    """Not those of devices that came later: they are as Heddle's settings for all make them."""
    path, mark, own = str(tmp_path / "before.json"), "net/ipv4/conf/all/src_valid_mark", "net/ipv4/conf/all/rp_filter"
    found = {own: "2"}
    monkeypatch.setattr(record, "read_sysctls", lambda: dict(found))
    keep_record("node", ["ovn-host"], [], write=True, path=path, run=Host())
    found |= {own: "0", "net/ipv4/conf/veth1/rp_filter": "0", mark: "0"}
    assert keep_record("node", ["ovn-host"], [], write=True, path=path, run=Host()).changed
    assert read_record(path).of("node").sysctls == {own: "2", mark: "0"}
    found[mark] = "1"
    assert not keep_record("node", ["ovn-host"], [], write=True, path=path, run=Host()).changed


def test_check_mode_writes_nothing(tmp_path):
    path = tmp_path / "heddle" / "before.json"
    assert keep_record("node", ["ovn-host"], [], write=False, path=str(path), run=Host()).changed
    assert not path.parent.exists()


def test_host_of_a_release_without_records_gets_none(tmp_path, monkeypatch):
    monkeypatch.setattr(record.os.path, "exists", lambda path: path == "/usr/local/sbin/heddle-host")
    path = tmp_path / "before.json"
    assert not keep_record("node", ["ovn-host"], [], write=True, path=str(path), run=Host()).changed
    assert not path.is_file()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 1}', '{"format": 1, "sections": [{"rule": 1}]}'])
def test_damaged_record_is_an_error_with_the_remedy(tmp_path, text):
    path = tmp_path / "before.json"
    path.write_text(text)
    with pytest.raises(EngineError, match=r"before\.json is damaged .* restore it from a backup"):
        read_record(str(path))


def test_later_format_is_an_error(tmp_path):
    path = tmp_path / "before.json"
    path.write_text(json.dumps({"format": 2, "sections": []}))
    with pytest.raises(EngineError, match="has format 2, and this release reads format 1"):
        read_record(str(path))


NODE = Section("node", installed=("bash",), manual=("bash",), requested=("ovn-host",))


@pytest.mark.parametrize(
    ("name", "later", "had"),
    [
        ("bash", Section("state"), True),
        ("ovn-host", Section("state", installed=("bash", "ovn-host"), manual=("bash", "ovn-host")), False),
        # Came as a dependency of ovn-host.
        ("ovn-common", Section("state", installed=("bash", "ovn-common"), requested=("ovn-common",)), False),
        # A user installed it between the two roles.
        ("qemu", Section("hypervisor", installed=("qemu",), manual=("qemu",), requested=("qemu",)), True),
    ],
)
def test_packages_that_were_there_before(name, later, had):
    assert Before([NODE, later]).had_package(name) is had


def test_earliest_section_decides():
    sections = [Section("node", users={"heddle": False}), Section("state", users={"heddle": True, "heddle-vm": False})]
    assert Before(sections).first("users") == {"heddle": False, "heddle-vm": False}


def test_every_setting_of_a_plan_is_recorded():
    """By the recorded desired states of hosts."""
    recorded = Path(__file__).parents[2] / "golden/host"
    names = {
        one.group(1)
        for file in recorded.glob("*.network")
        for one in re.finditer(r"Sysctl name=(\S+)", file.read_text())
    }
    assert len(names) > 10
    assert {(folder, setting) for folder, _device, setting in (name.rsplit("/", 2) for name in names)} <= set(
        record.SETTINGS
    )
