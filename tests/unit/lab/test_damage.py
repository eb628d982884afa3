# SPDX-License-Identifier: Apache-2.0
"""What is damaged or refused ends in one line with the remedy, and `down` removes what there is."""

import errno
import json
import re
import sys

import pytest

from lab import __main__ as program
from lab import commands, processes, runtime
from lab.config import Lab

STATE = {"driver": "vm", "reason": "r", "missing_features": [], "image": "i", "network": ["198.18", "fd00:6864"]}


@pytest.fixture
def lab(tmp_path, monkeypatch):
    (tmp_path / "lab").mkdir()
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("LAB_DIR", str(tmp_path / "lab"))
    return Lab()


@pytest.fixture
def said(monkeypatch, capsys):
    """The message of a verb that fails."""

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["lab", *words])
        monkeypatch.setattr(program.signal, "signal", lambda *_: None)
        assert program.main() == 1
        (line,) = capsys.readouterr().err.splitlines()
        return line

    return run


@pytest.mark.parametrize(
    ("text", "cause"),
    [("", "Expecting value"), ("{", "Expecting property name"), ("[]", "it has no driver, reason"), ("3", "int"),
     (json.dumps({**STATE, "driver": "x"}), "there is no driver x"), ("\udcff", "codec can't decode")],
)  # fmt: skip
@pytest.mark.parametrize("verb", ["up", "status"])
def test_damaged_state_is_named_with_its_remedy(lab, said, text, cause, verb):
    (lab.directory / "lab.json").write_text(text, errors="surrogateescape")
    pattern = rf"error: {lab.directory}/lab.json is damaged \(.*{cause}.*\); run: python -m lab down, .* lab up"
    assert re.fullmatch(pattern, said(verb))


def test_down_removes_the_hosts_of_damaged_state(lab):
    (lab.directory / "lab.json").write_text('{"driver": ')
    lab.logs.mkdir()
    (lab.directory / "node1").mkdir()
    pid_file = runtime.of(lab) / "node1.pid"
    pid = processes.start(pid_file, ["sleep", "1000"], lab.logs / "log")
    assert commands.down(lab)
    assert processes.identity(pid) is None
    assert not lab.directory.exists()
    assert not pid_file.parent.exists()
    assert not commands.down(lab)


def test_down_removes_the_rest_and_names_a_cgroup_that_stays(lab, said, monkeypatch):
    (lab.directory / "lab.json").write_text(json.dumps(STATE))
    monkeypatch.setattr(commands.impair, "remove", lambda group: [f"/cgroups/{group} (busy)"])
    line = said("down")
    assert re.search(r"except for cgroups: /cgroups/heddle-lab-\w+/node1 \(busy\), .*external \(busy\); end the", line)
    assert not lab.directory.exists()


@pytest.mark.parametrize("verb", [("throttle", "node1", "10"), ("pause", "node1"), ("reboot", "node1")])
def test_host_that_does_not_run_is_named(lab, said, verb):
    (lab.directory / "lab.json").write_text(json.dumps(STATE))
    assert said(*verb) == "error: node1 does not run; run: python -m lab start node1"


@pytest.mark.parametrize("directory", [True, False])
def test_down_removes_what_an_up_left_that_failed_early(lab, directory):
    """It had made the directory of sockets, and had not written what the lab is made of."""
    if directory:
        path = runtime.of(lab)
        (lab.directory / "lock").touch()
    else:
        lab.directory.rmdir()
        path = runtime.places(lab)[1]
        path.mkdir(parents=True)
    assert commands.down(lab)
    assert not path.exists()
    assert not lab.directory.exists()


def test_directory_that_is_a_file(lab, said):
    lab.directory.rmdir()
    lab.directory.touch()
    line = f"error: {lab.directory} is not a directory; remove it, or set LAB_DIR to another directory"
    assert said("up") == said("status") == line


@pytest.mark.parametrize(
    ("words", "begins"),
    [(("lose", "--blackhole", "node1", "node2", "1k"), "--blackhole 1k is no size"),
     (("lose", "--loss", "101"), "--loss 101 is no percentage"),
     (("throttle", "node1", "0"), "'0' is no limit of processor time")],
)  # fmt: skip
def test_arguments_are_refused_before_a_lab_is_needed(lab, said, words, begins):
    assert said(*words).startswith(f"error: {begins}")


@pytest.mark.parametrize(
    ("code", "remedy"),
    [(errno.ENOSPC, "make room where the lab writes"), (errno.EACCES, "as the user who started the lab"),
     (errno.EIO, "correct that")],
)  # fmt: skip
def test_refusals_of_the_system_have_a_remedy(lab, said, monkeypatch, code, remedy):
    def refuse(_lab):
        raise OSError(code, "refused", "/some/file")

    monkeypatch.setattr(commands, "status", refuse)
    line = said("status")
    assert line.startswith("error: /some/file: refused; ") and remedy in line
