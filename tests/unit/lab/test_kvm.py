# SPDX-License-Identifier: Apache-2.0
"""What is stored about KVM: only what was seen."""

import json
import subprocess

import pytest

from lab import kvm
from lab.image import Image


@pytest.fixture
def image(tmp_path, monkeypatch):
    monkeypatch.setattr(kvm, "accessible", lambda: True)
    monkeypatch.setattr(kvm.machine, "version", lambda: "QEMU 10")
    return Image(tmp_path, "made")


def guest(printed, ends):
    """Instead of QEMU: a guest that prints this on its console."""

    def run(argv, timeout, **_options):
        with open(argv[-1].removeprefix("file:"), "w") as console:
            console.write(printed)
        if not ends:
            raise subprocess.TimeoutExpired(argv, timeout)

    return run


@pytest.mark.parametrize(
    ("printed", "ends", "works", "stored"),
    [("kvm-works", True, True, [True]), ("", True, False, [False]), ("", False, False, []),
     ("kvm-works", False, True, [True])],
)  # fmt: skip
def test_a_guest_that_takes_too_long_is_tried_again(image, monkeypatch, printed, ends, works, stored):
    monkeypatch.setattr(kvm.subprocess, "run", guest(printed, ends))
    assert kvm.works(image.cache, image) is works
    known = image.cache / "kvm.json"
    assert (list(json.loads(known.read_text()).values()) if known.exists() else []) == stored
    assert kvm.remembered(image.cache, image)[1] is (works if stored else None)
