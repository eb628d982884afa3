# SPDX-License-Identifier: Apache-2.0
"""The watch over the health prober's cgroup, in directories that stand for cgroups, and in cgroups."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
from pathlib import Path

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.agent.chassis import chassis
from ansible_collections.heddle.ovn.plugins.module_utils.agent.health.health_prober_cgroup import (
    ProberCgroup,
    cgroup_number,
)

PROBER = "system.slice/prober.service"


@pytest.fixture(params=["directories", "cgroups"])
def root(request, tmp_path: Path):
    """What stands for the root of cgroups: a directory, and a cgroup (version 2) where this machine has them."""
    if request.param == "directories":
        yield tmp_path
        return
    mounts = subprocess.run(["findmnt", "-rnt", "cgroup2", "-o", "TARGET"], capture_output=True, text=True, check=False)
    mounted = mounts.stdout.split()
    if not mounted or os.geteuid() != 0:
        pytest.skip("needs root and a mounted cgroup file system of version 2")
    folder = Path(mounted[0]) / f"heddle-unit-{os.getpid()}"
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"cgroups cannot be made here: {error}")
    yield folder
    for path, _folders, _files in sorted(os.walk(folder), reverse=True):
        os.rmdir(path)


@pytest.fixture
def watch(root):
    made = ProberCgroup(root)
    yield made
    made.close()


def reported(watch) -> bool:
    """Wait until the kernel reports something; return whether that was a change of the cgroup."""
    while select.select(watch.sources, [], [], 10)[0]:
        if watch.changed():
            return True
    return False


def test_a_cgroup_that_comes_goes_and_comes_again_is_reported_each_time(root, watch):
    """Its parents do not exist in the beginning, as on a host where nothing of that slice was ever started."""
    watch.follow(PROBER)
    assert not watch.changed()
    (root / "system.slice").mkdir()
    (root / PROBER).mkdir()
    assert reported(watch)
    first = cgroup_number(PROBER, root)
    (root / PROBER).rmdir()
    assert reported(watch)
    assert cgroup_number(PROBER, root) is None
    # So that a file system which uses numbers again gives it to another one.
    (root / "system.slice" / "other.service").mkdir()
    (root / PROBER).mkdir()
    assert reported(watch)
    assert cgroup_number(PROBER, root) != first
    assert not watch.changed()


def test_a_slice_that_goes_with_the_cgroup_is_watched_again(root, watch):
    (root / PROBER).mkdir(parents=True)
    watch.follow(PROBER)
    (root / PROBER).rmdir()
    (root / "system.slice").rmdir()
    assert reported(watch)
    (root / "system.slice").mkdir()
    (root / PROBER).mkdir()
    assert reported(watch)


def test_other_cgroups_are_no_change(root, watch):
    (root / PROBER).mkdir(parents=True)
    watch.follow(PROBER)
    for name in ("system.slice/other.service", "user.slice"):
        (root / name).mkdir()
        (root / name).rmdir()
    assert not watch.changed()


def test_another_path_is_watched_from_then_on_and_none_is_no_change(root, watch):
    (root / "one").mkdir()
    watch.follow("one")
    watch.follow("two/deep")
    assert not watch.changed()
    (root / "two").mkdir()
    (root / "two" / "deep").mkdir()
    assert reported(watch)
    watch.follow("")
    (root / "two" / "deep").rmdir()
    assert not watch.changed()


def test_without_inotify_a_change_is_found_when_it_is_asked_for(tmp_path, monkeypatch):
    watch = ProberCgroup(tmp_path)
    watch.close()
    watch.follow(PROBER)
    (tmp_path / PROBER).mkdir(parents=True)
    assert watch.changed()
    shutil.rmtree(tmp_path / "system.slice")
    assert watch.changed()
    assert not watch.changed()


@pytest.mark.parametrize(
    ("provider", "unified", "expected"),
    [
        ({"prober": f"/{PROBER}/"}, True, PROBER),
        ({"prober": PROBER}, False, ""),
        ({"prober": ""}, True, ""),
        ({}, True, ""),
    ],
)
def test_the_prober_is_matched_where_cgroups_are_of_version_2(tmp_path, monkeypatch, provider, unified, expected):
    if unified:
        (tmp_path / "cgroup.controllers").touch()
    monkeypatch.setattr(chassis, "CGROUPS", tmp_path)
    assert chassis.matched_prober(provider) == expected
