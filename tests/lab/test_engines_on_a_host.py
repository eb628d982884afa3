# SPDX-License-Identifier: Apache-2.0
"""The live tests of the kernel's engines on a host: with its kernel, which may have VRFs, and its Python and nft."""

from __future__ import annotations

import importlib.metadata
import io
import shlex
import subprocess
import tarfile
from pathlib import Path

from .conftest import PATIENCE, ROOT

SOURCES = (
    "collections/ansible_collections/heddle/ovn/plugins",
    "tests/conftest.py",
    "tests/golden",
    "tests/pipeline.py",
    "tests/live",
    "pyproject.toml",
)
TESTS = ("tests/live/netlink", "tests/live/nftables")
# A virtual machine without KVM takes seconds for each test: those that may turn out differently on another kernel.
CHOSEN = "vrf or enslaved or anew or all_is_made or table_is_made or cgroup"
# What tests need and hosts do not have: pytest with what it needs, and what manifests are read with. All of it works as
# plain Python.
PACKAGES = ("pytest", "pluggy", "iniconfig", "packaging", "pygments", "PyYAML")


def archive() -> bytes:
    """Return a tar archive of the tests, what they test, and the packages that both need."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name in SOURCES:
            tar.add(ROOT / name, name, filter=_without_caches)
        for name in PACKAGES:
            for file in importlib.metadata.distribution(name).files:
                if file.suffix == ".py" or file.name == "METADATA":
                    tar.add(file.locate(), f"site/{file}")
    return packed.getvalue()


def _without_caches(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if Path(member.name).name == "__pycache__" else member


def test_kernel_engine_tests_pass_on_a_host(lab):
    ssh = ["ssh", "-F", str(lab.directory / "ssh_config"), "node1"]
    folder = lab.ssh("node1", "mktemp", "-d").strip()
    try:
        subprocess.run([*ssh, "tar", "-xzf", "-", "-C", folder], input=archive(), check=True)
        words = ["cd", folder, "&&", "PYTHONPATH=site", "python3", "-m", "pytest", "-p", "no:cacheprovider", *TESTS]
        words += ["-k", shlex.quote(CHOSEN)]
        done = subprocess.run([*ssh, *words], capture_output=True, text=True, check=False, timeout=PATIENCE)
        print(done.stdout)
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr
        assert " passed" in done.stdout
    finally:
        lab.ssh("node1", "rm", "-rf", folder)
