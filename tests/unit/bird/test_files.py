# SPDX-License-Identifier: Apache-2.0
"""BIRD's files: a configuration that it refuses leaves them as they were, and a user's may have any bytes."""

from __future__ import annotations

import json

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.bird import reconcile
from ansible_collections.heddle.ovn.plugins.module_utils.bird.control import BirdError
from ansible_collections.heddle.ovn.plugins.module_utils.bird.reconcile import Places, reconcile_bird
from ansible_collections.heddle.ovn.plugins.module_utils.types.bird_configuration import MARK, Configuration

WANTED = Configuration(f'protocol device heddle_x {{ description "{MARK}"; }}\n', "0123456789abcdef")


@pytest.fixture
def places(tmp_path):
    (tmp_path / "bird.conf").write_bytes(b"# gr\xf6\xdfe\r\nlog stderr all;\n")
    return Places(str(tmp_path), str(tmp_path / "bird.ctl"))


@pytest.fixture
def refuses(monkeypatch):
    """A BIRD that runs and accepts no configuration."""

    class Refusing:
        def __init__(self, _path):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *_exception):
            pass

        def descriptions(self, _pattern):
            return []

        def command(self, _text):
            raise BirdError("syntax error")

    monkeypatch.setattr(reconcile, "Control", Refusing)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("wanted", [WANTED, None])
@pytest.mark.parametrize("names", [["heddle_template.conf"], ["heddle.conf"], ["heddle.conf", "heddle_template.conf"]])
def test_a_refusal_leaves_all_files_as_they_were(places, refuses, tmp_path, wanted, names):
    for name in names:
        (tmp_path / name).write_bytes(b"# filters of a user's \xff, with a mistake\n")
        (tmp_path / name).chmod(0o640)
    before, permissions = contents(tmp_path), {path: path.stat().st_mode for path in tmp_path.iterdir()}
    with pytest.raises(BirdError, match="was restored: syntax error"):
        reconcile_bird(wanted, write=True, places=places)
    assert contents(tmp_path) == before
    # Passwords of sessions may be in the user's part, which only root and BIRD can read.
    template = tmp_path / "heddle_template.conf"
    assert not template.exists() or template.stat().st_mode == permissions[template]


def test_bytes_of_a_user_stay_and_no_text_of_theirs_is_shown(places, tmp_path):
    before = contents(tmp_path)
    (tmp_path / "heddle_template.conf").write_bytes(b'# caf\xe9\npassword "of a session";\n')
    outcome = reconcile_bird(WANTED, write=True, places=places)
    assert (tmp_path / "bird.conf").read_bytes().startswith(before["bird.conf"])
    assert not reconcile_bird(WANTED, write=True, places=places).changes
    outcome += reconcile_bird(None, write=True, places=places)
    assert contents(tmp_path) == before
    assert [change.name for change in outcome.changes if "digest" in change.before] == [places.templated]
    assert "of a session" not in json.dumps(outcome.diff())


@pytest.mark.parametrize("write", [False, True])
def test_a_host_without_pools_does_not_read_the_files_of_a_user(places, write, monkeypatch):
    read = []
    monkeypatch.setattr(reconcile, "_read", read.append)
    assert not reconcile_bird(None, write=write, places=places).changes
    assert places.main not in read
