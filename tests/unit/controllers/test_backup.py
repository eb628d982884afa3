# SPDX-License-Identifier: Apache-2.0
"""Invalid and incomplete backups are refused before any write."""

import json

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.controllers.backup import (
    BackupError,
    backup_of,
    keep_backup,
    read_backup,
    restore,
    snapshot_of,
)
from ansible_collections.heddle.ovn.plugins.module_utils.store.snapshot import Snapshot
from tests.pipeline import decide, layer2, namespace, workload


@pytest.fixture
def kept(tmp_path):
    snapshot, _problems = decide(namespace("a") + layer2("a", "net", "10.0.0.0/24") + workload("a", "w", "node1"))
    snapshot.revision = 3
    path = tmp_path / "state.json"
    keep_backup(backup_of(snapshot), str(path), write=True)
    assert snapshot_of(json.loads(path.read_text())) == snapshot
    return path


@pytest.mark.parametrize(
    ("damage", "fragment"),
    [
        (lambda text: text.replace('"10.0.0.3"', '"10.0.0.4"'), "was changed or truncated"),
        (lambda text: text.replace('"revision": 3', '"revision": 2'), "was changed or truncated"),
        (lambda text: text.replace('"cursors"', '"cursor"'), "was changed or truncated"),
        (lambda text: text[: len(text) // 2], "no backup in"),
        (lambda text: "", "no backup in"),
        (lambda text: text.replace('"format": 1', '"format": 2'), "has format 2"),
        (lambda text: '{"kind": "Namespace"}', "is no backup of the state"),
        (lambda text: "[]", "is no backup of the state"),
    ],
)
def test_a_damaged_backup_is_refused(kept, damage, fragment):
    text = damage(kept.read_text())
    assert text != kept.read_text()
    kept.write_text(text)
    with pytest.raises(BackupError, match=fragment):
        restore(None, read_backup(str(kept)), overwrite=True, least_revision=0, moment="", write=False)


def test_empty_state_has_no_backup():
    with pytest.raises(BackupError, match="holds nothing yet"):
        backup_of(Snapshot())


def test_missing_file_is_named(tmp_path):
    with pytest.raises(BackupError, match=r"missing\.json"):
        read_backup(str(tmp_path / "missing.json"))


def test_backup_file_mode_is_restricted_again(kept):
    document = json.loads(kept.read_text())
    assert not keep_backup(document, str(kept), write=True)
    kept.chmod(0o644)
    assert keep_backup(document, str(kept), write=False)
    assert keep_backup(document, str(kept), write=True)
    assert kept.stat().st_mode & 0o777 == 0o600
    assert not keep_backup(document, str(kept), write=True)
