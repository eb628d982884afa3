# SPDX-License-Identifier: Apache-2.0
"""The directory of pid files and sockets stays when a user logs out, and a lab that has lost it can be removed."""

import io
import json
import os
import shutil

import pytest

from lab import checkpoint, commands, image, processes, runtime
from lab.config import Lab
from lab.errors import LabError
from lab.stages import Stages

STATE = {"driver": "uml", "reason": "r", "missing_features": [], "image": "i", "network": ["198.18", "fd00:6864"],
         "uml": {"kernel": "k"}}  # fmt: skip


def begin(pid_file, argv):
    """Start a process with these words that stays and has no children; return it when the kernel shows its words."""
    words = [argv[0], "-f", "--", "/dev/null", *argv[1:]]
    pid = processes.start(pid_file, words, pid_file.with_suffix(".log"), executable=shutil.which("tail"))
    while not (runtime.PROC / str(pid) / "cmdline").read_bytes():
        pass
    return pid


@pytest.fixture
def session(tmp_path, monkeypatch):
    """The directory that logind removes at the logout."""
    path = tmp_path / "session"
    path.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(path))
    return path


@pytest.fixture
def lab(tmp_path, monkeypatch, session):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    # Paths of tests are longer than those of labs.
    monkeypatch.setattr(runtime, "LONGEST", 200)
    found = Lab(tmp_path / "lab")
    found.logs.mkdir(parents=True)
    return found


@pytest.fixture
def former(lab, session):
    """A lab of an earlier version: the directory that it has, and a process like that of a host."""
    path = session / runtime.name(lab)
    path.mkdir(mode=0o700)
    lab.write({**STATE, "runtime": str(path)})
    argv = ["linux", f"uml_dir={path}/"]
    pid = begin(path / "node1.pid", argv)
    yield path, pid
    processes.end([pid])


def test_a_new_lab_does_not_use_what_a_logout_removes(lab, session):
    assert runtime.of(lab) == lab.directory / "run"
    assert runtime.of(lab).stat().st_mode & 0o777 == 0o700
    assert not list(session.iterdir())


def test_a_directory_that_a_lab_has_stays(lab, former):
    path, _pid = former
    driver = commands.open_driver(lab, lab.read())
    assert driver.runtime == path
    assert processes.running(driver.pid_file(commands.HOSTS[0]))


def test_a_lab_is_removed_by_pid_files_that_are_elsewhere_now(lab, former, monkeypatch):
    """The next login has another directory, or none."""
    path, pid = former
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert commands.down(lab)
    assert processes.identity(pid) is None
    assert not path.exists() and not lab.directory.exists()


@pytest.mark.parametrize("damaged", [False, True])
def test_a_lab_is_removed_whose_pid_files_are_gone(lab, former, session, damaged):
    _path, pid = former
    shutil.rmtree(session)
    if damaged:
        (lab.directory / "lab.json").write_text("{")
    assert commands.down(lab)
    assert processes.identity(pid) is None
    assert not lab.directory.exists()


def test_hosts_are_not_started_a_second_time_when_their_pid_files_are_gone(lab, former, session):
    shutil.rmtree(session)
    for verb in (lambda: commands.up(lab, Stages(None), "auto"), lambda: commands.status(lab)):
        with pytest.raises(LabError, match=r"was removed while its hosts run; run: python -m lab down, then"):
            verb()


def test_a_lab_that_was_off_when_its_directory_went_has_another(lab, former, session):
    _path, pid = former
    processes.end([pid])
    shutil.rmtree(session)
    state = lab.read()
    assert commands.open_driver(lab, state).runtime == lab.directory / "run"
    assert state["runtime"] == str(lab.directory / "run")


def test_processes_of_another_lab_and_other_programs_stay(lab, tmp_path):
    other = Lab(tmp_path / "lab2")
    pids = [
        begin(tmp_path / "pid", [name, word])
        for name, word in (("linux", f"ubd1={other.directory}/node1/disk"), ("vi", f"{lab.directory}/ssh_config"),
                           ("linux", f"ubd1=/mnt{lab.directory}/disk"))
    ]  # fmt: skip
    try:
        assert runtime.left(lab) == []
        assert runtime.left(other) == pids[:1]
    finally:
        processes.end(pids)


def test_the_holder_of_containers_belongs_to_the_lab(lab, tmp_path):
    holder = processes.start(tmp_path / "holder", ["sleep", "1000"], tmp_path / "log")
    argv = ["python3", "lab.container", "--holder", str(holder)]
    argv += ["--state", f"{lab.directory}/node1"]
    container = begin(tmp_path / "container", argv)
    try:
        assert runtime.left(lab) == [container, holder]
    finally:
        processes.end([container, holder])


def test_a_long_path_and_a_folder_without_sockets_are_passed_over(lab, monkeypatch):
    monkeypatch.setattr(runtime, "LONGEST", len(str(lab.directory / "run")) - 1)
    monkeypatch.setattr(runtime, "places", lambda lab: [lab.directory / "run", lab.directory / "r", lab.cache / "c"])
    # A shared folder refuses a socket, which a path that is too long does as well.
    bind = runtime.socket.socket.bind

    class Socket(runtime.socket.socket):
        def bind(self, path):
            if path.startswith(f"{lab.directory}/"):
                raise OSError("Operation not supported")
            bind(self, path)

    monkeypatch.setattr(runtime.socket, "socket", Socket)
    monkeypatch.setattr(runtime, "LONGEST", len(str(lab.cache / "c")))
    assert runtime.of(lab) == lab.cache / "c"
    assert not (lab.directory / "r").exists()
    monkeypatch.setattr(runtime, "LONGEST", 10)
    with pytest.raises(LabError, match=r"no directory for sockets: .* set LAB_DIR to a short path"):
        runtime.of(lab)


def test_sockets_of_hosts_are_short_enough():
    """sun_path of unix(7) takes 107 characters."""
    longest = max(f"{host.name}.{segment}.machine" for host in commands.HOSTS for segment in host.segments)
    assert runtime.LONGEST + 1 + len(longest) <= 107


def test_a_directory_of_another_user_is_refused(lab, monkeypatch):
    path = runtime.of(lab)
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    with pytest.raises(LabError, match=f"{path} belongs to another user; repeat the command as that user"):
        runtime.of(lab, str(path))


def test_a_checkpoint_has_no_directory_of_sockets_for_the_next_lab(lab, monkeypatch):
    made = image.Image(lab.cache, "i")
    source = checkpoint.directory_of(lab, "one")
    source.mkdir(parents=True)
    saved = {**STATE, "runtime": "/run/user/4711/gone", "directory": str(lab.directory)}
    (source / "state.json").write_text(json.dumps(saved))
    monkeypatch.setattr(checkpoint, "now", lambda *_: saved)
    monkeypatch.setattr(checkpoint.overlap, "refuse", lambda _network: None)
    monkeypatch.setattr(image.Image, "require", lambda self: self)
    monkeypatch.setattr(commands.uml.Driver, "prepare", lambda *_: None)
    monkeypatch.setattr(checkpoint, "put_back", lambda *_: None)
    monkeypatch.setattr(commands, "bring_up", lambda *_: None)
    checkpoint.load(lab, Stages(io.StringIO()), "one")
    assert lab.read()["runtime"] == str(lab.directory / "run")
    assert made.name == lab.read()["image"]
