# SPDX-License-Identifier: Apache-2.0
"""Uninstallation of packages with the real apt-get and dpkg, in a directory of its own, with packages made for it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.processes import subprocesses
from ansible_collections.heddle.ovn.plugins.module_utils.uninstall.packages import remove_packages
from ansible_collections.heddle.ovn.plugins.module_utils.uninstall.record import Before, Section, installed_packages

Run = Callable[..., str]
# Name and dependency.
PACKAGES = {
    "editor": "", "orphan": "", "libvswitch": "", "switch": "libvswitch", "controller": "switch", "firewall": "",
    "users-tool": "firewall",
}  # fmt: skip

FOLDERS = (
    "etc/apt/apt.conf.d", "etc/apt/preferences.d", "etc/apt/sources.list.d", "var/cache/apt/archives/partial",
    "var/lib/apt/lists/partial", "var/lib/dpkg/info", "var/lib/dpkg/updates", "var/log/apt",
)  # fmt: skip


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Return a function that runs apt's and dpkg's programs on a system without a package."""
    if any(shutil.which(name) is None for name in ("apt-get", "dpkg-deb")):
        pytest.skip("this machine has no apt-get or dpkg-deb")
    root, archive = tmp_path / "root", tmp_path / "archive"
    for folder in FOLDERS:
        (root / folder).mkdir(parents=True)
    (root / "var/lib/dpkg/status").touch()
    archive.mkdir()
    for name, needed in PACKAGES.items():
        control = tmp_path / name / "DEBIAN" / "control"
        control.parent.mkdir(parents=True)
        control.write_text(
            f"Package: {name}\nVersion: 1\nArchitecture: all\nMaintainer: Test <test@example.com>\n"
            f"Description: test\n{f'Depends: {needed}' if needed else ''}\n"
        )
        subprocess.run(
            ["dpkg-deb", "--root-owner-group", "--build", tmp_path / name, archive], check=True, capture_output=True
        )
        entry = control.read_text().rstrip() + f"\nFilename: ./{name}_1_all.deb\n"
        content = (archive / f"{name}_1_all.deb").read_bytes()
        with (archive / "Packages").open("a") as packages:
            packages.write(f"{entry}Size: {len(content)}\nSHA256: {sha256(content).hexdigest()}\n\n")
    (root / "etc/apt/sources.list").write_text(f"deb [trusted=yes] file:{archive} ./\n")
    configuration = tmp_path / "apt.conf"
    options = {"Dir": root, "Dir::State::status": root / "var/lib/dpkg/status", "APT::Sandbox::User": "root",
               "Dir::Bin::Methods": "/usr/lib/apt/methods", "APT::Install-Recommends": "false"}  # fmt: skip
    configuration.write_text(
        "".join(f'{name} "{value}";\n' for name, value in options.items())
        + f'DPkg::Options {{ "--root={root}"; "--force-not-root"; "--force-bad-path"; "--log={root}/dpkg.log"; }};\n'
    )
    environment = ["env", f"APT_CONFIG={configuration}", f"DPKG_ADMINDIR={root}/var/lib/dpkg"]

    def call(argv: list[str], _text: str = "") -> str:
        return subprocesses.run([*environment, *argv])

    call(["apt-get", "--quiet=2", "update"])
    return call


def recorded(run: Run, *requested: str) -> Before:
    manual = tuple(run(["apt-mark", "showmanual"]).split())
    return Before([Section("node", installed=tuple(installed_packages(run)), manual=manual, requested=requested)])


def install(run: Run, *names: str) -> None:
    run(["apt-get", "--quiet=2", "--yes", "install", *names])


def test_what_was_installed_is_removed_and_nothing_else(run: Run):
    install(run, "editor", "orphan")
    run(["apt-mark", "auto", "orphan"])
    before = recorded(run, "controller", "firewall", "editor")
    install(run, "controller", "firewall", "editor")
    # A user's, since then.
    install(run, "users-tool")
    everything = set(installed_packages(run))
    assert everything == set(PACKAGES)

    checked = remove_packages(before, write=False, run=run)
    assert set(installed_packages(run)) == everything
    removed = remove_packages(before, write=True, run=run)
    assert checked.changes == removed.changes
    assert set(installed_packages(run)) == {"editor", "orphan", "firewall", "users-tool"}
    assert [note.partition(",")[0] for note in removed.notes] == ["the package firewall stays"]
    assert "users-tool needs it" in removed.notes[0]

    run(["apt-get", "--quiet=2", "--yes", "purge", "users-tool"])
    assert [change.name for change in remove_packages(before, write=True, run=run).changes] == ["firewall"]
    assert set(installed_packages(run)) == {"editor", "orphan"}
    assert not remove_packages(before, write=True, run=run).changed


def test_a_dependency_that_was_there_stays_and_is_one_again(run: Run):
    install(run, "switch")
    run(["apt-mark", "auto", "libvswitch"])
    before = recorded(run, "controller", "libvswitch")
    install(run, "controller", "libvswitch")
    remove_packages(before, write=True, run=run)
    assert set(installed_packages(run)) == {"switch", "libvswitch"}
    assert run(["apt-mark", "showmanual"]).split() == ["switch"]
