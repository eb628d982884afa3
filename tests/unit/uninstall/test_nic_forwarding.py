# SPDX-License-Identifier: Apache-2.0
"""An uninstallation shows beforehand which NICs stop forwarding, each once, whether the record of the host has it."""

from __future__ import annotations

import contextlib
from functools import partial

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.agent.nic_forwarding import made_forward
from ansible_collections.heddle.ovn.plugins.module_utils.common.change import Outcome
from ansible_collections.heddle.ovn.plugins.module_utils.uninstall import host_parts, network, removal
from ansible_collections.heddle.ovn.plugins.module_utils.uninstall.record import Before, Section

# The record of the installation has eth3; eth4 came later, and eth5 was made forward by others since.
BEFORE = Before([Section("node", sysctls={f"net/ipv4/conf/{name}/forwarding": "0" for name in ("all", "eth3")})])


@pytest.fixture
def removed(tmp_path, monkeypatch):
    """A function `write -> settings` that removes Heddle and returns what that changes, or would change, in order."""
    for name, value in (("all", "1"), ("eth3", "1"), ("eth4", "1"), ("eth5", "1"), ("eth6", "0")):
        (tmp_path / "net/ipv4/conf" / name).mkdir(parents=True)
        (tmp_path / f"net/ipv4/conf/{name}/forwarding").write_text(f"{value}\n")
    record = tmp_path / "forwarding"
    record.write_text("eth3\neth4\neth6\neth7\n")
    monkeypatch.setattr(network, "made_forward", partial(made_forward, tmp_path, str(record)))
    monkeypatch.setattr(host_parts, "restore_sysctls", partial(host_parts.restore_sysctls, root=str(tmp_path)))
    monkeypatch.setattr(network.kernel, "PYROUTE2_IMPORT_ERROR", ImportError())
    monkeypatch.setattr(network, "reachable", lambda *_any, **_named: contextlib.nullcontext())
    for module, names in (
        (network, ("reconcile_bird", "end_vms", "reconcile_firewall", "remove_ovn_rows", "remove_bridges")),
        (host_parts, ("stop_own_unit", "remove_own_files", "restore_units", "remove_users", "restore_files")),
        (host_parts, ("remove_library",)),
        (removal, ("remove_encryption",)),
    ):
        for name in names:
            monkeypatch.setattr(module, name, lambda *_any, **_named: Outcome())

    def run(*, write: bool) -> list[str]:
        found = removal._removed({"databases": "keep", "packages": "keep"}, BEFORE, ["heddle"], write=write)
        return [f"{change.name.split('/')[3]} {change.after['value']}" for change in found.changes]

    return run


def test_check_mode_shows_what_a_run_changes(removed):
    expected = ["eth3 0", "eth4 0", "all 0"]
    assert removed(write=False) == expected
    assert removed(write=True) == expected
    assert removed(write=True) == removed(write=False) == []
