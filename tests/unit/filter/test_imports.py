# SPDX-License-Identifier: Apache-2.0
"""What the files of filters import: Ansible loads all of them in the process of each task that uses one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from ansible_collections.heddle.ovn.plugins.filter import host_files

_HEAVY = ("pyroute2", "ansible_collections.heddle.ovn.plugins.module_utils.api")


def test_filters_import_no_substrate_and_no_kinds_before_they_are_called():
    names = sorted(one.stem for one in Path(host_files.__file__).parent.glob("*.py"))
    assert "reachability_report" in names
    program = "; ".join(
        [*(f"import ansible_collections.heddle.ovn.plugins.filter.{name}" for name in names), "import sys",
         f"print([name for name in {_HEAVY!r} if name in sys.modules])"]
    )  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
