# SPDX-License-Identifier: Apache-2.0
"""Files that are brought to given texts together."""

from __future__ import annotations

import os

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.errors import EngineError
from ansible_collections.heddle.ovn.plugins.module_utils.common.files.file_set import reconcile_files


def test_only_files_that_differ_are_written(tmp_path):
    equal, other, new = tmp_path / "equal", tmp_path / "other", tmp_path / "a" / "b" / "new"
    equal.write_text("text\n")
    equal.chmod(0o644)
    other.write_text("text\r\n")
    before = equal.stat()
    files = {str(path): "text\n" for path in (equal, other, new)}

    planned = reconcile_files(files, write=False)
    assert [(one.path, one.before) for one in planned] == [(str(other), "text\r\n"), (str(new), None)]
    assert not new.parent.exists()
    assert reconcile_files(files, write=True) == planned
    assert (new.read_text(), new.stat().st_mode & 0o777, new.parent.stat().st_mode & 0o777) == ("text\n", 0o644, 0o755)
    assert equal.stat() == before
    assert reconcile_files(files, write=True) == []


def test_mode_is_brought_back(tmp_path):
    path = tmp_path / "unit"
    path.write_text("text")
    path.chmod(0o600)
    assert reconcile_files({str(path): "text"}, write=True)
    assert path.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"etc/unit": "", "unit": ""}, "etc/unit, unit: not an absolute path"),
        ({"/proc/none/unit": ""}, "/proc/none/unit: "),
    ],
)
def test_paths_that_cannot_be_written_are_named(files, message):
    with pytest.raises(EngineError, match=message):
        reconcile_files(files, write=True)


def test_an_interrupted_run_is_completed(tmp_path, monkeypatch):
    first, second = tmp_path / "first", tmp_path / "second"
    files = {str(first): "1", str(second): "2"}
    monkeypatch.setattr(os, "replace", _once(os.replace))
    with pytest.raises(KeyboardInterrupt):
        reconcile_files(files, write=True)
    monkeypatch.undo()
    assert first.read_text() == "1"
    assert not second.exists()
    assert [one.path for one in reconcile_files(files, write=True)] == [str(second)]
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["first", "second"]


def _once(function):
    calls = []

    def call(*arguments):
        calls.append(arguments)
        if len(calls) > 1:
            raise KeyboardInterrupt
        return function(*arguments)

    return call
