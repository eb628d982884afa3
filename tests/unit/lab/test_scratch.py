# SPDX-License-Identifier: Apache-2.0
"""Where builds work, and what is removed of those that were killed."""

import fcntl
import os
import sys

import pytest

from lab import image, scratch
from lab.config import PROJECT

PREFIX = "heddle-building-x-"


@pytest.fixture(autouse=True)
def _no_wish(monkeypatch):
    monkeypatch.delenv("TMPDIR", raising=False)


def test_builds_are_on_the_disk_of_the_cache_unless_the_user_wants_another_place(tmp_path, monkeypatch):
    """And not in /tmp, which is memory on Debian 13."""
    assert scratch.base(tmp_path) == tmp_path
    monkeypatch.setenv("TMPDIR", "/elsewhere")
    assert str(scratch.base(tmp_path, public=True)) == "/elsewhere"


@pytest.mark.parametrize("mode", [0o755, 0o711, 0o700])
def test_what_other_user_ids_must_reach_is_not_in_a_private_home(tmp_path, monkeypatch, mode):
    monkeypatch.setattr(scratch.Path, "parents", property(lambda path: []))
    home = tmp_path / "home"
    home.mkdir(mode=mode)
    assert scratch.base(home, public=True) == (scratch.PUBLIC if mode == 0o700 else home)


def test_a_directory_is_empty_reachable_and_removed(tmp_path):
    with pytest.raises(RuntimeError), scratch.directory(tmp_path, PREFIX) as made:
        assert made.name.startswith(PREFIX)
        assert made.stat().st_mode & 0o777 == 0o755
        (made / "deep").mkdir()
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_only_what_belongs_to_no_running_build_of_this_user_is_removed(tmp_path, monkeypatch):
    for name in ("killed", "running", "unfinished", "foreign"):
        (tmp_path / f"{PREFIX}{name}").mkdir()
        if name != "unfinished":
            (tmp_path / f"{PREFIX}{name}" / "lock").touch()
    (tmp_path / f"{PREFIX}link").symlink_to(tmp_path / f"{PREFIX}killed")
    owned = scratch.owned
    monkeypatch.setattr(scratch, "owned", lambda path: owned(path) and not path.name.endswith("foreign"))
    with open(tmp_path / f"{PREFIX}running" / "lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with scratch.directory(tmp_path, PREFIX) as one, scratch.directory(tmp_path, PREFIX) as two:
            assert one.exists() and two.exists()
    left = {path.name.removeprefix(PREFIX) for path in tmp_path.iterdir()}
    assert left == {"running", "unfinished", "foreign", "link"}


def test_the_build_of_the_image_is_complete_in_one_directory(tmp_path, monkeypatch):
    """mmdebstrap has one of its own, which must not be in /tmp either."""
    seen = {}

    def run(argv, _purpose, _remedy="", **options):
        seen[argv[0]] = options.get("env", {}).get("TMPDIR")

    monkeypatch.setattr(image, "run", run)
    monkeypatch.setattr(image.sources, "read_sources", lambda: [])
    monkeypatch.setattr(image.sources, "apt_options", lambda: [])
    monkeypatch.setenv("LAB_APT_URI", "http://mirror.example/debian")
    image.bootstrap(tmp_path / "additions.tar", tmp_path / "root.tar")
    assert list(seen.values()) == [str(tmp_path)]


def test_torn_images_are_removed(tmp_path, monkeypatch):
    (tmp_path / ".image-former.x").mkdir()
    monkeypatch.setattr(image, "build", lambda work: None)
    image.ensure(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"image-{image.digest()}", "image.lock"]


def test_files_of_a_user_namespace_are_removed_in_one(tmp_path, monkeypatch):
    """Those that mmdebstrap makes for an ordinary user belong to other user ids."""
    ran = []
    (tmp_path / "root").mkdir()
    monkeypatch.setattr(scratch.subprocess, "run", lambda argv, **_options: ran.append(argv))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    scratch.remove(tmp_path)
    plain = ["find", str(tmp_path), "-xdev", "-mindepth", "1", "-delete"]
    assert ran == [plain, [*scratch.IN_NAMESPACE, *plain]]


def test_what_cannot_be_removed_yet_a_later_build_removes(tmp_path, monkeypatch):
    """As where a process of the killed build still writes."""
    left = tmp_path / f"{PREFIX}killed"
    (left / "root").mkdir(parents=True)
    (left / "lock").touch()
    with monkeypatch.context() as patch:
        patch.setattr(scratch.subprocess, "run", lambda _argv, **_options: None)
        with scratch.directory(tmp_path, PREFIX):
            pass
    assert left.exists()
    with scratch.directory(tmp_path, PREFIX):
        assert not left.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts need root")
def test_nothing_that_is_mounted_is_removed(tmp_path):
    """As mounts of an installation that was killed: they lead to this machine's own devices."""
    left, kept = tmp_path / "left", tmp_path / "kept"
    script = """
        mount -t tmpfs kept "$2" && touch "$2/file" && mkdir -p "$1/dev" && mount --bind "$2" "$1/dev" || exit 3
        "$3" -c 'import pathlib, sys; from lab import scratch; scratch.remove(pathlib.Path(sys.argv[1]))' "$1"
        test -e "$2/file"
    """
    kept.mkdir()
    argv = ["unshare", "--mount", "--propagation=private", "sh", "-c", script, "sh", str(left), str(kept)]
    image.run(
        [*argv, sys.executable], "remove a directory with a mount", env={**os.environ, "PYTHONPATH": str(PROJECT)}
    )
    scratch.remove(left)
    assert not left.exists()
