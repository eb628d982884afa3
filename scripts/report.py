# SPDX-License-Identifier: Apache-2.0
"""Run the notebooks on what the playbooks left in report/, and write a page in report/ for each.

python -m scripts.report [NOTEBOOK ...]
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from scripts.stages import PROJECT

NOTEBOOKS = {"01_first_light": "first_light", "02_gateways": "gateways", "03_layer2_upgrade": "layer2_upgrade"}
# A notebook on something that not every cluster has been through.
OPTIONAL = {"03_layer2_upgrade": "upgrade_layer2.json"}


def main() -> int:
    """Execute and convert; returns the exit code of what failed, or 0."""
    names = sys.argv[1:] or NOTEBOOKS
    return next((code for name in names if _has_report(name) and (code := _made(name))), 0)


def _has_report(name: str) -> bool:
    return name not in OPTIONAL or (PROJECT / "report" / OPTIONAL[name]).exists()


def _made(name: str) -> int:
    directory = PROJECT / "report"
    notebook = PROJECT / "notebooks" / f"{name}.ipynb"
    executed = directory / f"{NOTEBOOKS[name]}.ipynb"
    binaries = Path(sys.executable).parent
    commands = [
        [str(binaries / "papermill"), "--no-progress-bar", "--cwd", str(notebook.parent), str(notebook), str(executed),
         "-p", "report_directory", str(directory)],
        [str(binaries / "jupyter"), "nbconvert", "--to", "html", "--no-input", "--log-level", "WARN", str(executed)],
    ]  # fmt: skip
    for command in commands:
        code = subprocess.run(command, cwd=PROJECT, check=False).returncode
        if code:
            return code
    print(f"wrote {executed.with_suffix('.html')}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
