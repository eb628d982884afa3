# SPDX-License-Identifier: Apache-2.0
"""BIRD's files: a configuration that it refuses leaves them as they were, and a user's may have any bytes."""

from __future__ import annotations

import itertools
import json
import stat
from pathlib import Path

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.bird import reconcile
from ansible_collections.heddle.ovn.plugins.module_utils.bird.control import BirdError
from ansible_collections.heddle.ovn.plugins.module_utils.bird.reconcile import Places, reconcile_bird
from ansible_collections.heddle.ovn.plugins.module_utils.common.errors import NotInstalled, ProgramError
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


@pytest.mark.parametrize(("names", "wanted"), [
    *itertools.product(
        (["heddle_template.conf"], ["heddle.conf"], ["heddle.conf", "heddle_template.conf"],
         ["heddle.conf", "heddle_template.conf", "heddle_template.wanted"]),
        (WANTED, None),
    ),
    (["heddle_template.wanted"], WANTED),
])  # fmt: skip
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


class Program:
    """BIRD's program: what it is asked to read, and the file and line of a mistake in that."""

    def __init__(self):
        self.read = {}

    def __call__(self, argv, _text):
        assert argv[:-1] == ["bird", "-p", "-c"]
        main = Path(argv[-1])
        (pattern,) = (line.split('"')[1] for line in main.read_text("latin-1").splitlines() if "include" in line)
        names = sorted(main.parent.glob(Path(pattern).name))
        self.read = {path.name: path.read_bytes() for path in (main, *names)}
        assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in (main, *names))
        for path in names:
            if b"nonsense" in path.read_bytes():
                raise ProgramError("bird", f"bird: {path}:1:10 syntax error\n")


@pytest.mark.parametrize("names", [[], ["heddle_template.conf"]])
def test_a_template_with_a_mistake_does_not_get_where_bird_reads_it(places, tmp_path, names):
    """BIRD does not run, so its program alone can find the mistake, before the next start of BIRD does."""
    program = Program()
    for name in names:
        (tmp_path / name).write_bytes(b"# without a mistake\n")
        reconcile_bird(WANTED, write=True, places=places, run=program)
    (tmp_path / "heddle_mine.conf").write_bytes(b"# of the user's own\n")
    (tmp_path / "heddle_template.wanted").write_bytes(b"protocol nonsense;\n")
    (tmp_path / "heddle_old.conf.check").write_bytes(b"# of a run that was cut off\n")
    before = contents(tmp_path)
    with pytest.raises(BirdError, match=r"the former one stays: .*/heddle_template\.conf:1:10 syntax error$"):
        reconcile_bird(WANTED, write=True, places=places, run=program)
    copies = {"bird.conf.check", "heddle.conf.check", "heddle_mine.conf.check", "heddle_template.conf.check"}
    assert program.read.keys() == copies
    assert program.read["bird.conf.check"].startswith(b"# gr\xf6\xdfe\r\n")
    before.pop("heddle_old.conf.check")
    assert contents(tmp_path) == before
    # The difference is seen, and is one of address pools alone.
    changes = reconcile_bird(WANTED, write=False, places=places).changes
    assert places.templated in {change.name for change in changes}
    assert {change.network for change in changes} == {"address pools"}
    (tmp_path / "heddle_template.wanted").write_bytes(b"# corrected\n")
    (tmp_path / "heddle_template.wanted").chmod(0o640)
    assert reconcile_bird(WANTED, write=True, places=places, run=program).changed
    assert Path(places.templated).read_bytes() == b"# corrected\n"
    assert stat.S_IMODE(Path(places.templated).stat().st_mode) == 0o640
    assert not reconcile_bird(WANTED, write=True, places=places, run=program).changes


def test_what_the_role_made_for_a_plan_that_is_to_come_stays(places, tmp_path):
    """The service of the host may compare itself with a plan without pools meanwhile."""
    (tmp_path / "heddle_template.wanted").write_bytes(b"# of a user's\n")
    assert not reconcile_bird(None, write=True, places=places).changes
    assert (tmp_path / "heddle_template.wanted").read_bytes() == b"# of a user's\n"


def test_without_the_program_the_files_are_written(places, tmp_path):
    def missing(_argv, _text):
        raise NotInstalled("bird", "is not installed")

    (tmp_path / "heddle_template.wanted").write_bytes(b"# of a user's\n")
    assert reconcile_bird(WANTED, write=True, places=places, run=missing).changed
    assert Path(places.templated).read_bytes() == b"# of a user's\n"
    assert sorted(contents(tmp_path)) == ["bird.conf", "heddle.conf", "heddle_template.conf", "heddle_template.wanted"]
    reconcile_bird(None, write=True, places=places, run=missing)
    assert sorted(contents(tmp_path)) == ["bird.conf"]
