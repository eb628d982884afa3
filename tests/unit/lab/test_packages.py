# SPDX-License-Identifier: Apache-2.0
"""Which Debian packages are installed, and the lab's message when apt cannot do that."""

import os
import sys

import pytest

from lab import __main__ as program
from lab import kvm, packages, probe
from lab.config import DRIVERS, Lab
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


@pytest.fixture
def installs(monkeypatch, tmp_path):
    """The drivers, in the order of installations, that `packages` installs for on a machine without any of them."""
    found = []

    def install(names):
        kinds = [driver for driver in DRIVERS if set(packages.PER_DRIVER[driver]) <= set(names)]
        found.append((*kinds, *(("kernel",) if set(packages.KERNEL) <= set(names) else ())))
        present.update(names)

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["lab", "packages", *words])
        assert program.main() == 0
        return found

    present = set()
    monkeypatch.delenv("DRIVER", raising=False)
    monkeypatch.setenv("LAB_DIR", str(tmp_path / "lab"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(program.signal, "signal", lambda *_: None)
    monkeypatch.setattr(packages, "install", install)
    monkeypatch.setattr(packages, "missing", lambda names: [name for name in names if name not in present])
    monkeypatch.setattr(probe, "missing_features", lambda: [] if "iproute2" in present else list(probe.FEATURES))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(kvm, "accessible", lambda: False)
    return run


def test_containers_need_no_qemu(installs):
    """The common packages come first: without `ip` of iproute2 a machine seems to lack every feature."""
    assert installs() == [(), ("nspawn",)]


def test_driver_that_is_asked_for(installs):
    assert installs("--driver", "uml") == [(), ("uml", "kernel")]


def test_driver_of_a_lab_that_exists(installs):
    lab = Lab()
    lab.directory.mkdir()
    lab.write({"driver": "vm", "reason": "", "missing_features": [], "image": "i", "network": []})
    assert installs() == [(), ("vm", "uml")]


def test_kvm_has_to_be_tried_with_qemu_unless_it_is_known(installs, monkeypatch):
    monkeypatch.setattr(kvm, "accessible", lambda: True)
    monkeypatch.setattr(probe, "lacks", lambda _names: [])
    monkeypatch.setattr(kvm, "remembered", lambda *_: ("key", False))
    assert installs() == [(), ("nspawn",)]
    monkeypatch.setattr(kvm, "remembered", lambda *_: ("key", None))
    assert installs()[2:] == [("vm", "uml")]


def test_all_drivers(installs):
    assert installs("--driver", "all") == [(), ("vm", "nspawn", "uml")]


def test_containers_are_refused_to_an_ordinary_user_before_packages_are_installed(installs, monkeypatch, capsys):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(AssertionError):
        installs("--driver", "nspawn")
    assert "error: driver nspawn needs root; use --driver uml" in capsys.readouterr().err
    assert installs("--driver", "uml")[:1] == [()]
