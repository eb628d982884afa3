# SPDX-License-Identifier: Apache-2.0
"""What the files of filters import: Ansible loads all of them in the process of each task that uses one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from ansible_collections.heddle.ovn.plugins.filter import host_files

_HEAVY = ("pyroute2", "ansible_collections.heddle.ovn.plugins.module_utils.api")


def imported(modules: list[str], wanted: tuple[str, ...]) -> list[str]:
    """Import modules of the collection in a process of their own; return which of `wanted` came with them."""
    program = "; ".join(
        [*(f"import ansible_collections.heddle.ovn.plugins.{name}" for name in modules), "import sys",
         f"print(*(name for name in {wanted!r} if name in sys.modules))"]
    )  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert not done.stderr
    return done.stdout.split()


def test_the_page_of_the_fleet_imports_neither_kinds_nor_rendering():
    """Each run of networks.yml and audit.yml makes it."""
    renders = "ansible_collections.heddle.ovn.plugins.module_utils.render.northbound"
    assert imported(["plugin_utils.pages.fleet.page"], (*_HEAVY, renders)) == []


def test_filters_import_no_substrate_and_no_kinds_before_they_are_called():
    names = sorted(one.stem for one in Path(host_files.__file__).parent.glob("*.py"))
    assert "reachability_report" in names
    assert imported([f"filter.{name}" for name in names], _HEAVY) == []
