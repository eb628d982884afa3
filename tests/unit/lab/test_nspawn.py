# SPDX-License-Identifier: Apache-2.0
"""What driver nspawn needs of the machine is asked for before a container is started."""

import pytest

from lab import nspawn
from lab.config import Lab, Network
from lab.errors import LabError


@pytest.fixture
def driver(monkeypatch, tmp_path):
    monkeypatch.setattr(nspawn.os, "geteuid", lambda: 0)
    return nspawn.Driver(Lab(tmp_path), Network(), None, tmp_path, {})


def test_a_machine_without_tun_is_refused_before_the_image_is_unpacked(driver, monkeypatch, tmp_path):
    monkeypatch.setattr(nspawn, "TUN", tmp_path / "tun")
    with pytest.raises(LabError, match=r"needs .*/tun; run: modprobe tun, or use DRIVER=uml"):
        driver.prepare(None)


def test_an_ordinary_user_is_refused(driver, monkeypatch):
    monkeypatch.setattr(nspawn.os, "geteuid", lambda: 1000)
    with pytest.raises(LabError, match=r"needs root; use DRIVER=uml, .*or vm where KVM works"):
        driver.prepare(None)
