# SPDX-License-Identifier: Apache-2.0
"""The image is known by the digest of its inputs, and appears whole or not at all."""

import shutil
import tarfile
from collections import namedtuple

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


def test_failed_build_leaves_nothing(tmp_path, monkeypatch):
    def build(work):
        (work / "half").write_text("done")
        raise RuntimeError

    monkeypatch.setattr(image, "build", build)
    with pytest.raises(RuntimeError):
        image.ensure(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["image.lock"]


MADE = ("root.squashfs", "vmlinuz", "initramfs", "empty.ext4", "ssh_key")


@pytest.mark.parametrize("lost", [None, *MADE])
def test_a_built_image_is_used_again_if_it_is_whole(tmp_path, monkeypatch, lost):
    monkeypatch.setattr(image, "build", lambda work: [(work / name).write_text("x") for name in MADE])
    first, built = image.ensure(tmp_path)
    assert built and first.squashfs.exists()
    if lost:
        (first.directory / lost).unlink()
    again, built = image.ensure(tmp_path)
    assert built is bool(lost) and again.directory == first.directory
    assert again.require().exists()


def test_a_disk_without_room_is_refused_before_the_build(monkeypatch, tmp_path):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(image.shutil, "disk_usage", lambda _path: usage(10, 9, 1))
    with pytest.raises(LabError, match=r"has 0.0 GB left.*set TMPDIR"):
        image.ensure(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["image.lock"]


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
