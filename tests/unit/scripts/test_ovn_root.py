# SPDX-License-Identifier: Apache-2.0
"""OVN's programs come out of the host image, also in a clone in which nothing else has run yet."""

from __future__ import annotations

import os
import shutil
import subprocess
from types import SimpleNamespace

import pytest

from scripts import ovn_root

# A name that no machine has among its own alternatives.
ALTERNATIVE = "heddle-test-ovs-vswitchd"


@pytest.fixture
def ensure(tmp_path, monkeypatch):
    """A function that packs `content` below tmp_path as an image and extracts it into a new clone."""
    if shutil.which("mksquashfs") is None:
        pytest.skip("squashfs-tools are missing; `make lab` installs them")
    content, clone, squashfs = tmp_path / "content", tmp_path / "clone", tmp_path / "root.squashfs"
    clone.mkdir()
    for part in ovn_root.PARTS:
        if part.startswith("usr/"):
            (content / part).mkdir(parents=True)
        else:
            link(content / part, f"usr/{part}")

    def pack_and_extract():
        if not squashfs.exists():
            subprocess.run(["mksquashfs", content, squashfs, "-quiet", "-no-progress"], check=True, capture_output=True)
        image = SimpleNamespace(name="image-1", squashfs=squashfs)
        monkeypatch.setattr(ovn_root.image, "ensure", lambda _cache: (image, False))
        monkeypatch.setattr(ovn_root, "PROJECT", clone)
        return ovn_root.ensure()

    return pack_and_extract


def write(path, text=""):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def link(path, target):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


def test_a_fresh_clone_gets_the_programs(ensure, tmp_path):
    write(tmp_path / "content/usr/bin/ovsdb-server")
    root = ensure()
    assert (root / "usr/bin/ovsdb-server").exists()
    assert ensure() == root
    assert root.parent == tmp_path / "clone/.cache"


def test_alternatives_are_resolved_inside_the_image(ensure, tmp_path):
    content = tmp_path / "content"
    write(content / "usr/lib/openvswitch-switch/ovs-vswitchd", "from the image")
    link(content / "usr/sbin/ovs-vswitchd", f"/etc/alternatives/{ALTERNATIVE}")
    link(content / f"etc/alternatives/{ALTERNATIVE}", "/usr/lib/openvswitch-switch/ovs-vswitchd")
    assert not os.path.lexists(f"/etc/alternatives/{ALTERNATIVE}")
    assert (ensure() / "usr/sbin/ovs-vswitchd").read_text() == "from the image"


def test_links_stay_inside_the_directory(ensure, tmp_path):
    content = tmp_path / "content"
    link(content / "usr/bin/absolute", "/etc/hostname-of-the-image")
    link(content / "usr/bin/climbing", "../../../../../../../../../../etc/passwd")
    link(content / "usr/bin/missing", "/bin/sh")
    link(content / "usr/bin/circle", "circle")
    write(content / "etc/hostname-of-the-image", "node")
    write(content / "etc/passwd", "of the image")
    root = ensure()
    assert (root / "usr/bin/absolute").read_text() == "node"
    assert (root / "usr/bin/climbing").read_text() == "of the image"
    assert not (root / "usr/bin/missing").exists()
    assert not (root / "usr/bin/circle").exists()


def test_links_in_a_directory_that_is_a_link_are_followed(ensure, tmp_path):
    content = tmp_path / "content"
    link(content / "usr/bin/pager", "/bin/more")
    write(content / "usr/bin/more", "more")
    assert (ensure() / "usr/bin/pager").read_text() == "more"
