# SPDX-License-Identifier: Apache-2.0
"""The state database's own life: backup, loss, restore, and a schema that gets older."""

import json

import pytest

from tests.lab.conftest import ROOT

DATABASE = "/var/lib/heddle-state/heddle.db"
SOCKET = "unix:/run/heddle-state/heddle.sock"


def rows(lab, table, *columns):
    """Rows of the state database, in the order of their content."""
    found = json.loads(lab.ssh("node1", "ovsdb-client", "-f", "json", "dump", SOCKET, "Heddle", table, *columns))
    return sorted(map(json.dumps, found["data"]))


def test_a_lost_state_is_restored_with_the_same_ids(lab, tmp_path):
    file = tmp_path / "state.json"
    lab.play("state_backup.yml", "-e", f"heddle_backup_file={file}", "--check")
    assert not file.exists()
    assert lab.play("state_backup.yml", "-e", f"heddle_backup_file={file}").changed["node1"] == 1
    assert lab.play("state_backup.yml", "-e", f"heddle_backup_file={file}").changed["node1"] == 0
    allocations = rows(lab, "Pool", "name", "held")
    before = lab.dump()

    lab.ssh("node1", "systemctl", "stop", "heddle-state")
    lab.ssh("node1", "rm", DATABASE)
    lab.play("install.yml", "--limit", "heddle_state,localhost")
    assert rows(lab, "Pool", "name", "held") == []

    announced = lab.play("state_restore.yml", "-e", f"heddle_backup_file={file}", "--check")
    assert announced.changed["node1"] == 1
    assert rows(lab, "Pool", "name", "held") == []
    assert lab.play("state_restore.yml", "-e", f"heddle_backup_file={file}").changed["node1"] == 1
    assert rows(lab, "Pool", "name", "held") == allocations
    assert lab.play("state_restore.yml", "-e", f"heddle_backup_file={file}").changed["node1"] == 0
    # Nothing changes on hosts; their reports about the restored networks are new to the state.
    changed = lab.play("networks.yml").changed
    assert {host: number for host, number in changed.items() if number} == {"node1": 1}
    assert lab.dump() == before


def test_nonempty_state_is_not_overwritten_without_the_option(lab, tmp_path):
    file = tmp_path / "state.json"
    lab.play("state_backup.yml", "-e", f"heddle_backup_file={file}")
    kept = json.loads(file.read_text())
    file.write_text(json.dumps({**kept, "revision": kept["revision"] + 1}))
    assert (
        "was changed or truncated"
        in lab.play("state_restore.yml", "-e", f"heddle_backup_file={file}", success=False).output
    )
    assert "name the backup" in lab.play("state_restore.yml", success=False).output


@pytest.mark.long
def test_an_older_schema_is_converted_and_a_newer_one_refused(lab):
    schema = json.loads((ROOT / "roles" / "state" / "files" / "heddle.ovsschema").read_text())
    before = rows(lab, "Object", "kind", "namespace", "name", "spec")

    def install(version):
        text = json.dumps({**schema, "version": version})
        lab.ssh("node1", f"cat > /tmp/schema <<'END'\n{text}\nEND")
        lab.ssh("node1", "ovsdb-client", "convert", SOCKET, "/tmp/schema")

    install("0.9.0")
    announced = lab.play("install.yml", "--check", "--limit", "heddle_state,localhost")
    assert announced.changed["node1"] == 1
    assert lab.play("install.yml", "--limit", "heddle_state,localhost").changed["node1"] == 1
    assert lab.ssh("node1", "ovsdb-client", "get-schema-version", SOCKET, "Heddle").strip() == schema["version"]
    assert rows(lab, "Object", "kind", "namespace", "name", "spec") == before
    install("99.0.0")
    refused = lab.play("install.yml", "--limit", "heddle_state,localhost", success=False)
    install(schema["version"])
    assert refused.code
    assert "made by a later version of Heddle" in refused.output
