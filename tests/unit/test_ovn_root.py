# SPDX-License-Identifier: Apache-2.0
"""OVN's programs come out of the host image, also in a clone in which nothing else has run yet."""

from __future__ import annotations

import shutil
import subprocess
from types import SimpleNamespace

import pytest

from scripts import ovn_root

pytestmark = pytest.mark.skipif(
    shutil.which("mksquashfs") is None, reason="squashfs-tools are missing; `make lab` installs them"
)


def test_a_fresh_clone_gets_the_programs(tmp_path, monkeypatch):
    content, clone = tmp_path / "content", tmp_path / "clone"
    clone.mkdir()
    for part in ovn_root.PARTS:
        (content / part).mkdir(parents=True)
    (content / "usr/bin/ovsdb-server").write_text("")
    squashfs = tmp_path / "root.squashfs"
    subprocess.run(["mksquashfs", content, squashfs, "-quiet", "-no-progress"], check=True, capture_output=True)
    image = SimpleNamespace(name="image-1", squashfs=squashfs)
    monkeypatch.setattr(ovn_root.image, "ensure", lambda _cache: (image, False))
    monkeypatch.setattr(ovn_root, "PROJECT", clone)
    assert (ovn_root.ensure() / "usr/bin/ovsdb-server").exists()
    assert ovn_root.ensure() == clone / ".cache/ovn-root-image-1"
