# SPDX-License-Identifier: Apache-2.0
"""Which driver is chosen, and what a forced one lacks."""

import pytest

from lab.errors import LabError
from lab.packages import needed
from lab.probe import FEATURES, choose, wish


def test_containers_only_where_the_kernel_has_everything_and_we_are_root():
    assert choose("auto", [], True) == ("nspawn", "root, and this kernel has every feature")
    assert choose("auto", [], False) == ("vm", "not root")
    assert choose("auto", ["vrf"], True) == ("vm", "this kernel lacks vrf")


def test_a_forced_driver_lists_what_it_lacks():
    assert choose("nspawn", ["vrf", "geneve"], True) == ("nspawn", "asked for; this kernel lacks vrf, geneve")
    assert choose("vm", ["vrf"], False) == ("vm", "asked for")


def test_impossible_wishes_are_refused():
    with pytest.raises(LabError, match="needs root"):
        choose("nspawn", [], False)
    with pytest.raises(LabError, match="there is no driver docker; use auto, vm or nspawn"):
        choose("docker", [], True)


def test_the_option_comes_before_the_environment(monkeypatch):
    monkeypatch.delenv("DRIVER", raising=False)
    assert wish(None) == "auto"
    monkeypatch.setenv("DRIVER", "nspawn")
    assert wish(None) == "nspawn"
    assert wish("vm") == "vm"


def test_the_features_that_decide():
    assert list(FEATURES) == ["vrf", "fou", "ipip", "openvswitch", "geneve"]


def test_packages_follow_the_driver():
    assert "qemu-system-x86" in needed("vm", True)
    assert "qemu-system-x86" not in needed("nspawn", True)
    assert {"qemu-system-x86", "systemd-container"} <= set(needed(None, True))
    assert "uidmap" in needed("vm", False)
