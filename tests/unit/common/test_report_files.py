# SPDX-License-Identifier: Apache-2.0
"""The module `report`: files are written when they differ, and nowhere else than in the directory."""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.files.report_files import Refused, keep
from tests.module_entry import run_module

FILES = {"a.json": "{}\n", "b.txt": "täxt\r\n"}


def test_files_are_written_once_and_the_directory_is_made(tmp_path):
    directory = tmp_path / "deep" / "report"
    assert keep(str(directory), FILES, write=True) == ["a.json", "b.txt"]
    assert {path.name: path.read_bytes().decode() for path in directory.iterdir()} == FILES
    assert keep(str(directory), FILES, write=True) == []
    assert keep(str(directory), {**FILES, "a.json": "[]"}, write=True) == ["a.json"]


def test_check_mode_reports_changes_and_writes_nothing(tmp_path):
    assert keep(str(tmp_path / "new"), FILES, write=False) == ["a.json", "b.txt"]
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", ["../a", "/etc/a", "..", "", "a/b"])
def test_path_traversal_is_refused(tmp_path, name):
    with pytest.raises(Refused, match="a name without a directory is needed"):
        keep(str(tmp_path), {name: "x"}, write=True)
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_is_a_file_is_named(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(Refused, match="file"):
        keep(str(tmp_path / "file"), FILES, write=True)


def test_the_module_writes_once_and_check_mode_writes_nothing(tmp_path):
    arguments = {"directory": str(tmp_path / "report"), "files": FILES}
    for check, written in ((True, sorted(FILES)), (False, sorted(FILES)), (False, []), (True, [])):
        found = run_module("report", tmp_path, check=check, **arguments)
        assert (found["changed"], found["written"]) == (bool(written), written)
        assert (tmp_path / "report" / "a.json").exists() is not (check and bool(written))
    found = run_module("report", tmp_path, check=False, directory=str(tmp_path), files={"../a": ""})
    assert (found["failed"], "a name without a directory is needed" in found["msg"]) == (True, True)
