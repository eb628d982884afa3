# SPDX-License-Identifier: Apache-2.0
"""A guest of User Mode Linux boots and has every feature; needs the kernel in the cache, no lab and no root."""

from __future__ import annotations

import pytest

from lab import guest, kernel, kernel_probe
from lab.config import Lab
from lab.errors import LabError
from lab.image import Image, digest


@pytest.fixture(scope="module")
def parts():
    """Return a kernel and an image, both from the cache."""
    cache = Lab().cache
    found, image = kernel.cached(cache), Image(cache, digest())
    if found is None:
        pytest.skip("there is no kernel of driver uml in the cache: python -m lab kernel builds one")
    if not image.exists():
        pytest.skip("there is no host image in the cache: python -m lab image builds one")
    return found, image


def test_the_kernel_has_every_feature(parts):
    kernel_probe.attempt(*parts)


def test_a_missing_feature_is_named(parts, monkeypatch):
    monkeypatch.setitem(kernel_probe.FEATURES, "impossible", "ip link add probe type impossible")
    with pytest.raises(LabError, match="the kernel of driver uml lacks impossible; use DRIVER="):
        kernel_probe.attempt(*parts)


def test_panicking_guest_ends_and_its_console_is_quoted(parts, monkeypatch, tmp_path):
    monkeypatch.setattr(guest, "FILES", tmp_path)
    (tmp_path / "probe").write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(LabError, match=r"does not run a guest here: it ended early: .*panic"):
        kernel_probe.attempt(*parts)
