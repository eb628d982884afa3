# SPDX-License-Identifier: Apache-2.0
"""The lab's message when apt cannot install its packages."""

import os

import pytest

from lab import packages
from lab.errors import LabError


@pytest.mark.parametrize(
    "said",
    [
        "E: Failed to fetch http://mirror.example/pool/cpio.deb  Could not connect",
        "E: You don't have enough free space in /var/cache/apt/archives/.",
    ],
)
def test_an_apt_that_fails_is_one_line_with_a_remedy(monkeypatch, tmp_path, said):
    for name, script in {"apt-get": f'echo "{said}" >&2; exit 100', "sudo": 'shift; exec "$@"'}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(LabError) as failed:
        packages.install(["cpio"])
    assert str(failed.value) == (
        f"apt cannot install cpio: {said}; "
        "check that apt reaches its mirror (apt-get update) and that the disk has room, then run it again"
    )
