# SPDX-License-Identifier: Apache-2.0
"""Manifests that were found valid are not validated again; nothing else counts as such."""

from __future__ import annotations

import json
import os

import pytest

from ansible_collections.heddle.ovn.plugins.action import manifest
from ansible_collections.heddle.ovn.plugins.plugin_utils.validated_manifests import ValidatedManifests
from tests.pipeline import layer2, namespace

FOUND = {"document": "eJyLjgUAARUAuQ==", "count": 0}


@pytest.fixture
def kept(tmp_path):
    """A result that was kept."""
    ValidatedManifests("1", "text", tmp_path / "kept").keep(FOUND)
    return tmp_path / "kept"


def test_the_same_input_of_the_same_release_has_the_result(kept):
    assert ValidatedManifests("1", "text", kept).read() == FOUND
    assert ValidatedManifests("2", "text", kept).read() is None
    assert ValidatedManifests("1", "another", kept).read() is None
    assert [oct(path.stat().st_mode & 0o777) for path in (kept, *kept.iterdir())] == ["0o700", "0o600"]


@pytest.mark.parametrize("content", ["", "[]", '{"document": ""}', "{", "\x00"])
def test_damaged_files_do_not_count(kept, content):
    next(kept.iterdir()).write_text(content)
    assert ValidatedManifests("1", "text", kept).read() is None


def test_a_directory_that_others_can_write_is_neither_read_nor_written(kept):
    kept.chmod(0o777)
    assert ValidatedManifests("1", "text", kept).read() is None
    ValidatedManifests("1", "more", kept).keep(FOUND)
    assert len(list(kept.iterdir())) == 1


def test_a_few_sets_are_kept(kept):
    for number in range(20):
        ValidatedManifests("1", str(number), kept).keep(FOUND)
        os.utime(ValidatedManifests("1", str(number), kept)._path, (number, number))
    assert len(list(kept.iterdir())) == 8
    assert ValidatedManifests("1", "19", kept).read() == FOUND


def test_without_a_directory_nothing_is_kept(tmp_path):
    (tmp_path / "file").write_text("")
    ValidatedManifests("1", "text", tmp_path / "file/kept").keep(FOUND)
    assert ValidatedManifests("1", "text", tmp_path / "file/kept").read() is None


class Task:
    """What the action looks at of its task."""

    def __init__(self, check_mode: bool) -> None:
        self.check_mode = check_mode


@pytest.mark.parametrize("check_mode", [False, True])
def test_only_valid_manifests_are_kept_and_nothing_in_check_mode(tmp_path, monkeypatch, check_mode):
    calls = []
    examine = manifest._examine
    monkeypatch.setattr(manifest, "_examine", lambda *arguments: calls.append(1) or examine(*arguments))
    monkeypatch.setattr(
        manifest, "ValidatedManifests", lambda sources, text: ValidatedManifests(sources, text, tmp_path / "kept")
    )
    action = object.__new__(manifest.ActionModule)
    action._task = Task(check_mode)
    text = namespace("red") + layer2("red", "net", "10.0.0.0/24")
    for manifests, problems in ((text, 0), (text.replace("10.0.0.0/24", "10.0.0.1/33"), 1)):
        arguments = {"files": [{"name": "t.yml", "text": manifests}], "nodes": ["node1"], "settings": {}}
        first, again = action.check(arguments, {}), action.check(arguments, {})
        assert json.dumps(first) == json.dumps(again)
        assert bool(first[0]) is bool(problems)
    assert len(calls) == (4 if check_mode else 3)
    assert (tmp_path / "kept").exists() is not check_mode


def test_a_file_without_text_is_reported_although_the_others_were_found_valid(tmp_path, monkeypatch):
    monkeypatch.setattr(
        manifest, "ValidatedManifests", lambda sources, text: ValidatedManifests(sources, text, tmp_path / "kept")
    )
    action = object.__new__(manifest.ActionModule)
    action._task = Task(check_mode=False)
    good = {"name": "a.yml", "text": namespace("red")}
    unread = {"name": "b.yml.j2", "problem": {"line": 3, "rule": "'x' is undefined", "remedy": "define it"}}
    arguments = {"files": [good], "nodes": ["node1"], "settings": {}}
    assert action.check(arguments, {})[0] == []
    for files in ([good, unread], [unread]):
        assert action.check({**arguments, "files": files}, {})[0] == ["b.yml.j2:3: 'x' is undefined; define it"]
