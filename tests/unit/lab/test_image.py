# SPDX-License-Identifier: Apache-2.0
"""The image is known by the digest of its inputs, and appears whole or not at all."""

import os
import shutil
import tarfile
from collections import namedtuple
from pathlib import Path

import pytest

from lab import image
from lab.config import FILES
from lab.errors import LabError

DEPENDENCIES = """\
kernel/drivers/virtio/virtio.ko:
kernel/drivers/virtio/virtio_ring.ko: kernel/drivers/virtio/virtio.ko
kernel/drivers/block/virtio_blk.ko: kernel/drivers/virtio/virtio_ring.ko kernel/drivers/virtio/virtio.ko
kernel/fs/overlayfs/overlay.ko:
"""


@pytest.fixture
def files(tmp_path, monkeypatch):
    copy = tmp_path / "files"
    shutil.copytree(FILES, copy)
    monkeypatch.setattr(image, "FILES", copy)
    return copy


def test_the_digest_is_the_same_for_the_same_inputs(files):
    before = image.digest()
    (files / "init").touch()
    assert image.digest() == before


def test_the_digest_sees_every_file(files):
    seen = {image.digest()}
    paths = [path for path in files.rglob("*") if path.is_file()]
    for path in paths:
        path.write_bytes(path.read_bytes() + b"\n")
        seen.add(image.digest())
    assert len(seen) == len(paths) + 1


def test_the_digest_sees_a_file_that_moves(files):
    before = image.digest()
    (files / "root/srv/http/index.html").rename(files / "root/srv/http/other.html")
    assert image.digest() != before


def test_the_digest_sees_the_packages(monkeypatch):
    before = image.digest()
    monkeypatch.setattr(image, "PACKAGES", (*image.PACKAGES, "one-more"))
    assert image.digest() != before


def test_module_load_order():
    assert image.load_order(DEPENDENCIES, ("virtio_blk", "overlay", "built_in")) == [
        "kernel/drivers/virtio/virtio.ko",
        "kernel/drivers/virtio/virtio_ring.ko",
        "kernel/drivers/block/virtio_blk.ko",
        "kernel/fs/overlayfs/overlay.ko",
    ]


def test_a_build_is_reported_before_it_begins(tmp_path, monkeypatch):
    """It takes minutes."""
    said = []
    monkeypatch.setattr(image, "build", lambda work: (make(work), said.append("built")))
    for _ in range(2):
        image.ensure(tmp_path, said.append)
    assert said == ["installs Debian trixie for the hosts, which takes minutes", "built"]


def test_failed_build_leaves_nothing(tmp_path, monkeypatch):
    def build(work):
        (work / "half").write_text("done")
        raise RuntimeError

    monkeypatch.setattr(image, "build", build)
    with pytest.raises(RuntimeError):
        image.ensure(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["image.lock"]


MADE = ("root.squashfs", "vmlinuz", "initramfs", "empty.ext4", "ssh_key")


def make(work):
    """Instead of a build: the files of an image, of which the squashfs has 4096 bytes by its superblock."""
    for name in MADE:
        (work / name).write_bytes(image.SUPERBLOCK.pack(b"hsqs", 4096).ljust(4096, b"x"))


@pytest.mark.parametrize("damage", [lambda path: path.unlink(), lambda path: os.truncate(path, 0)])
@pytest.mark.parametrize("lost", [None, *MADE])
def test_a_built_image_is_used_again_if_it_is_whole(tmp_path, monkeypatch, lost, damage):
    monkeypatch.setattr(image, "build", make)
    first, built = image.ensure(tmp_path)
    assert built and first.squashfs.exists()
    if lost:
        damage(first.directory / lost)
    again, built = image.ensure(tmp_path)
    assert built is bool(lost) and again.directory == first.directory
    assert again.require().exists()


@pytest.mark.parametrize("size", [4095, 47, 10])
def test_truncated_squashfs_is_built_anew(tmp_path, monkeypatch, size):
    monkeypatch.setattr(image, "build", make)
    first, _ = image.ensure(tmp_path)
    os.truncate(first.squashfs, size)
    with pytest.raises(LabError, match=r"is not in .* or not whole; run: python -m lab down, then"):
        first.require()
    assert image.ensure(tmp_path)[1]
    first.require()


@pytest.mark.skipif(shutil.which("mksquashfs") is None, reason="squashfs-tools are missing; `make lab` installs them")
def test_squashfs_of_squashfs_tools_is_whole_until_it_is_truncated(tmp_path):
    (tmp_path / "content").mkdir()
    (tmp_path / "content/file").write_bytes(os.urandom(20000))
    squashfs = tmp_path / "root.squashfs"
    image.run(["mksquashfs", str(tmp_path / "content"), str(squashfs), "-quiet", "-no-progress"], "pack")
    assert image.whole(squashfs)
    os.truncate(squashfs, 16384)
    assert not image.whole(squashfs)


USAGE = namedtuple("USAGE", "total used free")


def test_a_disk_without_room_is_refused_before_the_build(monkeypatch, tmp_path):
    monkeypatch.setattr(image.shutil, "disk_usage", lambda _path: USAGE(10, 9, 1))
    with pytest.raises(LabError, match=r"0.0 GB left, and building .*set TMPDIR"):
        image.ensure(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["image.lock"]


@pytest.mark.parametrize(
    ("disks", "free", "said"),
    [({"tmp": 1, "cache": 2}, {"tmp": 9.0, "cache": 0.01}, r"/cache: 0.0 GB left, and .* takes 0.5 GB there"),
     ({"tmp": 1, "cache": 1}, {"tmp": 3.3}, r"/tmp and \S+/cache: 3.5 GB left, and .* takes 3.8 GB there")],
)  # fmt: skip
def test_both_places_that_a_build_writes_to_need_room(monkeypatch, tmp_path, disks, free, said):
    monkeypatch.setattr(image, "device", lambda path: disks[path.name])
    monkeypatch.setattr(image.shutil, "disk_usage", lambda path: USAGE(0, 0, free[Path(path).name] * (1 << 30)))
    with pytest.raises(LabError, match=said):
        image.require_space("it", {tmp_path / "tmp": image.BUILD_BYTES, tmp_path / "cache": image.IMAGE_BYTES})


def test_command_that_fails_without_a_message_has_a_remedy():
    with pytest.raises(LabError, match=r"cannot do it: false ended with 1: it wrote no message; correct .*make room"):
        image.run(["false"], "do it")


def test_command_that_is_missing_has_a_remedy():
    with pytest.raises(LabError, match="cannot do it: there is no command heddle-none; run: python -m lab packages"):
        image.run(["heddle-none"], "do it")


@pytest.mark.skipif(shutil.which("mmdebstrap") is None, reason="mmdebstrap is missing; `make lab` installs it")
def test_a_mirror_that_is_not_reachable_is_named_with_a_remedy(monkeypatch, tmp_path):
    monkeypatch.setenv("LAB_APT_URI", "http://127.0.0.1:9/debian")
    with tarfile.open(tmp_path / "additions.tar", "w"):
        pass
    with pytest.raises(
        LabError, match=r"install Debian trixie from http://127.0.0.1:9/debian.*check that apt"
    ) as failed:
        image.bootstrap(tmp_path / "additions.tar", tmp_path / "root.tar")
    assert "\n" not in str(failed.value)
