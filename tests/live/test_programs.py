# SPDX-License-Identifier: Apache-2.0
"""Programs out of the host image run with nothing of this machine: neither its files nor its libraries."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

PROGRAMS = (
    "nft", "ovn-controller", "ovn-northd", "ovn-trace", "ovs-appctl", "ovs-ofctl", "ovs-vsctl", "ovs-vswitchd",
    "ovsdb-server", "ovsdb-tool", "qemu-system-x86_64",
)  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_and_libraries_are_from_the_image(tools, name):
    if not tools.root:
        pytest.skip("HEDDLE_OVN_ROOT is not set: programs are this machine's own")
    *loader, program = tools.command(name)
    assert Path(program).resolve().is_relative_to(tools.root)
    # What the loader would load, as ldd prints it.
    done = subprocess.run([*loader, "--list", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    libraries = re.findall(r"=> (\S+) \(", done.stdout)
    assert libraries
    assert [library for library in libraries if not Path(library).resolve().is_relative_to(tools.root)] == []


def test_allocator_of_northd_is_from_the_image(tools):
    if not tools.root:
        pytest.skip("HEDDLE_OVN_ROOT is not set: libraries are this machine's own")
    assert Path(tools.library("libjemalloc.so.2")).resolve().is_relative_to(tools.root)
