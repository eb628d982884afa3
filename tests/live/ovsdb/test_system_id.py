# SPDX-License-Identifier: Apache-2.0
"""The system-id where Open vSwitch was never started: the file decides, and a second run changes nothing."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.heddle.ovn.plugins.module_utils.agent.chassis.chassis_id import restore_chassis_id


def test_database_without_a_row_is_no_change(vswitch, tmp_path: Path) -> None:
    file = tmp_path / "system-id.conf"
    with vswitch.client() as client:
        first = restore_chassis_id(client, "planned", str(file), write=True)
        assert [str(change) for change in first.changes] == [f"create file system-id {file}"]
        assert not restore_chassis_id(client, "planned", str(file), write=True).changes
        vswitch.transact({"op": "insert", "table": "Open_vSwitch", "row": {}})
        again = restore_chassis_id(client, "planned", str(file), write=True)
        assert [str(change) for change in again.changes] == ["update Open_vSwitch Open_vSwitch system-id"]
        assert not restore_chassis_id(client, "planned", str(file), write=True).changes
