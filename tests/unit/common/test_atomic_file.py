# SPDX-License-Identifier: Apache-2.0
"""A file is replaced as a whole or not at all, and keeps its permissions and owner."""

from __future__ import annotations

import errno
import os
import stat

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.files.atomic_file import DEFAULT_MODE, replace_file

WRITERS = pytest.mark.parametrize("single_writer", [True, False])


def mode_of(path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@WRITERS
@pytest.mark.parametrize("content", ["täxt\r\n", b"\0\xff"])
def test_the_content_is_the_new_one_and_nothing_else_is_left(tmp_path, content, single_writer):
    path = tmp_path / "file"
    path.write_text("a longer content than the new one")
    replace_file(path, content, single_writer=single_writer)
    assert path.read_bytes() == (content if isinstance(content, bytes) else content.encode())
    assert list(tmp_path.iterdir()) == [path]


@WRITERS
def test_permissions_are_those_asked_for_or_those_that_were_there(tmp_path, single_writer):
    path = tmp_path / "file"
    previous = os.umask(0o077)
    try:
        replace_file(path, "", single_writer=single_writer)
        assert mode_of(path) == DEFAULT_MODE
        path.chmod(0o640)
        replace_file(path, "", single_writer=single_writer)
        assert mode_of(path) == 0o640
        replace_file(path, "", mode=0o600, single_writer=single_writer)
        assert mode_of(path) == 0o600
    finally:
        os.umask(previous)


@pytest.mark.skipif(os.geteuid() != 0, reason="another owner needs root")
def test_the_owner_is_kept(tmp_path):
    path = tmp_path / "file"
    path.write_text("")
    os.chown(path, 65534, 65533)
    path.chmod(0o4755)
    replace_file(path, "new")
    assert (path.stat().st_uid, path.stat().st_gid, mode_of(path)) == (65534, 65533, 0o4755)


@WRITERS
@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_failure_leaves_the_old_content_and_nothing_else(tmp_path, monkeypatch, failing, single_writer):
    path = tmp_path / "file"
    path.write_text("old")

    def full(*_arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, failing, full)
    with pytest.raises(OSError, match="No space left"):
        replace_file(path, "new", single_writer=single_writer)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_is_replaced_and_what_it_leads_to_is_not(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    replace_file(link, "new")
    assert (target.read_text(), link.read_text(), link.is_symlink()) == ("old", "new", False)
    assert mode_of(link) == DEFAULT_MODE


def test_no_link_in_the_place_of_the_new_file_is_followed(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("untouched")
    (tmp_path / "file.new").symlink_to(elsewhere)
    with pytest.raises(OSError):
        replace_file(tmp_path / "file", "new", single_writer=True)
    assert elsewhere.read_text() == "untouched"


def test_what_a_killed_run_left_is_written_over(tmp_path):
    (tmp_path / "file.new").write_text("half of a very long content")
    replace_file(tmp_path / "file", "new", single_writer=True)
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_name_without_a_directory_is_one_of_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    replace_file("file", "new")
    assert (tmp_path / "file").read_text() == "new"
