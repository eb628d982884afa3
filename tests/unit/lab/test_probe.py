# SPDX-License-Identifier: Apache-2.0
"""Which driver is chosen, and what a forced one lacks."""

import pytest

from lab.config import DRIVERS
from lab.errors import LabError
from lab.packages import KERNEL, PER_DRIVER, needed
from lab.probe import FEATURES, choose, wish

LACKS = "this kernel lacks vrf"
NOT_SHOWN = f"{LACKS}: no VRFs and no local gateway mode here; DRIVER=uml has both"


@pytest.mark.parametrize(
    ("kvm", "root", "missing", "cached", "driver", "reason"),
    [
        *((True, root, missing, cached, "vm", "KVM runs guests here")
          for root in (True, False) for missing in ([], ["vrf"]) for cached in (True, False)),
        (False, True, [], True, "nspawn", "root, and this kernel has every feature"),
        (False, True, [], False, "nspawn", "root, and this kernel has every feature"),
        (False, True, ["vrf"], True, "uml", f"no KVM, {LACKS}; the kernel of driver uml is in the cache"),
        (False, True, ["vrf"], False, "nspawn", NOT_SHOWN),
        (False, False, [], True, "uml", "no KVM, not root; the kernel of driver uml is in the cache"),
        (False, False, ["vrf"], True, "uml", "no KVM, not root; the kernel of driver uml is in the cache"),
        (False, False, [], False, "uml", "no KVM, not root"),
        (False, False, ["vrf"], False, "uml", "no KVM, not root"),
    ],
)  # fmt: skip
def test_driver_selection_without_option(kvm, root, missing, cached, driver, reason):
    assert choose("auto", missing, root, kvm, cached) == (driver, reason)


def test_emulated_virtual_machines_only_when_asked_for():
    assert choose("vm", ["vrf"], False) == ("vm", "asked for")


@pytest.mark.parametrize("driver", DRIVERS)
def test_explicit_driver_is_used(driver):
    for kvm in (True, False):
        for cached in (True, False):
            assert choose(driver, [], True, kvm, cached) == (driver, "asked for")


def test_a_forced_driver_lists_what_it_lacks():
    assert choose("nspawn", ["vrf", "geneve"], True) == ("nspawn", "asked for; this kernel lacks vrf, geneve")


def test_impossible_drivers_are_refused():
    with pytest.raises(LabError, match="needs root; use --driver uml or vm, which do not, or run this as root"):
        choose("nspawn", [], False)
    with pytest.raises(LabError, match="there is no driver docker; use auto, vm, nspawn or uml"):
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
    assert "qemu-system-x86" in needed(("vm",), True)
    assert "qemu-system-x86" not in needed(("nspawn",), True)
    assert {"qemu-system-x86", "systemd-container"} <= set(needed(DRIVERS, True))
    assert "uidmap" in needed(("vm",), False)
    assert not {name for names in PER_DRIVER.values() for name in names} & set(needed((), True))


def test_a_compiler_is_needed_only_to_build_a_kernel():
    assert not {"gcc", "flex", "bison", "bc"} & set(needed(DRIVERS, True))
    assert set(KERNEL) <= set(needed(("uml",), True, build_kernel=True))
