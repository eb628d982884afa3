# SPDX-License-Identifier: Apache-2.0
"""Checkpoints: what is kept, and of which lab they are."""

import os
from types import SimpleNamespace

import pytest

from lab import checkpoint, commands
from lab.config import HOSTS, Lab
from lab.errors import LabError
from lab.stages import Stages

STATE = {
    "driver": "uml",
    "reason": "asked for",
    "missing_features": [],
    "image": "i",
    "network": ["198.18", "fd00:6864"],
    "uml": {"kernel": "k"},
}
DRIVER = SimpleNamespace(kept=("disk", "upper"))
NOW = {"directory": "/lab", "network": STATE["network"], "image": "i"}


@pytest.fixture
def lab(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found = Lab(tmp_path / "lab")
    found.cache.mkdir(parents=True)
    for host in HOSTS:
        directory = found.directory / host.name
        (directory / "upper").mkdir(parents=True)
        (directory / "upper/name").write_text(host.name)
        (directory / "upper/link").symlink_to("name")
        with open(directory / "disk", "wb") as disk:
            disk.truncate(1 << 30)
    return found


def test_checkpoint_round_trip(lab):
    target = checkpoint.directory_of(lab, "one")
    checkpoint.keep(lab, STATE, DRIVER, target)
    for host in HOSTS:
        (lab.directory / host.name / "upper/name").write_text("changed")
        (lab.directory / host.name / "upper/new").touch()
        checkpoint.put_back(lab, DRIVER, target, host)
        directory = lab.directory / host.name
        assert (directory / "upper/name").read_text() == host.name
        assert os.readlink(directory / "upper/link") == "name"
        assert not (directory / "upper/new").exists()
        assert (directory / "disk").stat().st_blocks * 512 < 1 << 20
    saved = checkpoint.read(lab, target, "one")
    assert saved == {**STATE, "directory": str(lab.directory)}
    assert checkpoint.names(lab) == ["one"]


def test_failed_copy_keeps_the_former_checkpoint(lab):
    target = checkpoint.directory_of(lab, "one")
    checkpoint.keep(lab, STATE, DRIVER, target)
    with pytest.raises(LabError, match=r"cannot copy .*missing"):
        checkpoint.keep(lab, STATE, SimpleNamespace(kept=("missing",)), target)
    assert checkpoint.read(lab, target, "one")["image"] == "i"
    assert [path.name for path in lab.cache.iterdir()] == ["checkpoint-one"]


def test_checkpoint_of_the_same_lab_is_accepted():
    checkpoint.compare(STATE | {"directory": "/lab"}, NOW, "one")


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("directory", "/other", "the lab's directory was /lab and is /other"),
        ("network", ["198.19", "fd00:6864"], "network prefixes was 198.18 fd00:6864 and is 198.19 fd00:6864"),
        ("image", "j", "the host image was i and is j"),
    ],
)
def test_a_checkpoint_of_another_lab_is_refused(key, value, words):
    with pytest.raises(LabError, match=f"checkpoint one is of another lab: .*{words}; .*python -m lab save one"):
        checkpoint.compare(STATE | {"directory": "/lab"}, NOW | {key: value}, "one")


def test_missing_checkpoint(lab):
    with pytest.raises(LabError, match="there is no checkpoint one; there is none; run: python -m lab save one"):
        checkpoint.load(lab, Stages(None), "one")
    checkpoint.keep(lab, STATE, DRIVER, checkpoint.directory_of(lab, "two"))
    with pytest.raises(LabError, match="there is no checkpoint one; there are two"):
        checkpoint.load(lab, Stages(None), "one")


@pytest.mark.parametrize("name", ["", "a/b", "../x", ".hidden", "a b", "x" * 42])
def test_bad_names(lab, name):
    with pytest.raises(LabError, match="cannot name a checkpoint; use up to 41 letters"):
        checkpoint.directory_of(lab, name)


def test_lab_with_a_cut_off_load_does_not_start(lab):
    lab.write({**STATE, "loading": "one"})
    with pytest.raises(LabError, match=r"loading checkpoint one was cut off.*; run: python -m lab load one, or"):
        commands.up(lab, Stages(None), "auto")


def test_a_lab_with_another_driver_is_refused(lab, monkeypatch):
    monkeypatch.setattr(checkpoint.image, "digest", lambda: "i")
    checkpoint.keep(lab, STATE, DRIVER, checkpoint.directory_of(lab, "one"))
    lab.write({**STATE, "driver": "vm"})
    with pytest.raises(LabError, match="the lab runs with driver vm, checkpoint one with uml; run: python -m lab down"):
        checkpoint.load(lab, Stages(None), "one")
