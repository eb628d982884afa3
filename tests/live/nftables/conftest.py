# SPDX-License-Identifier: Apache-2.0
"""nft in a network namespace of the test's own, and cgroups as a host with the unified hierarchy has them."""

import contextlib
import ctypes
import os
import subprocess
from pathlib import Path

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.errors import ProgramError
from ansible_collections.heddle.ovn.plugins.module_utils.netlink import kernel

CGROUPS = Path("/sys/fs/cgroup")
_NEW_MOUNTS = 0x20000


@pytest.fixture
def run_nft(tools):
    """A runner of the nft of the host image, in the network namespace that the test is in."""

    def run(argv, text=""):
        done = subprocess.run(tools.command(*argv), input=text, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode:
            raise ProgramError("nft", done.stderr)
        return done.stdout

    return run


@contextlib.contextmanager
def _own_mounts():
    """Mount namespace of this thread's own; what is mounted in it goes with it."""
    library, folder = ctypes.CDLL(None, use_errno=True), os.getcwd()
    with open("/proc/thread-self/ns/mnt", encoding="utf-8") as home:
        if library.unshare(_NEW_MOUNTS):
            pytest.skip(f"no mount namespace: {os.strerror(ctypes.get_errno())}")
        try:
            subprocess.run(["mount", "--make-rprivate", "/"], check=True)
            yield
        finally:
            assert library.setns(home.fileno(), _NEW_MOUNTS) == 0, os.strerror(ctypes.get_errno())
            os.chdir(folder)


@pytest.fixture
def cgroup():
    """A cgroup (version 2) of the test's own, two levels below /sys/fs/cgroup."""
    with _own_mounts():
        mounted = subprocess.run(
            ["mount", "-t", "cgroup2", "none", str(CGROUPS)], capture_output=True, text=True, check=False
        )
        if mounted.returncode:
            pytest.skip(f"this kernel has no cgroup version 2: {mounted.stderr.strip()}")
        folder = CGROUPS / f"heddle-test-{os.getpid()}" / "prober"
        folder.mkdir(parents=True)
        yield folder
        for one in (folder, folder.parent):
            with contextlib.suppress(FileNotFoundError):
                one.rmdir()


@pytest.fixture
def namespace():
    """A function that makes network namespaces; they go with the test."""
    made = []

    def make(name):
        kernel.create_namespace(name, "")
        made.append(name)
        return name

    yield make
    for name in made:
        kernel.remove_namespace(name)
