# SPDX-License-Identifier: Apache-2.0
"""Run the notebook on what verify and audit left in report/, and write report/first_light.html."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from scripts.stages import PROJECT

NOTEBOOK = PROJECT / "notebooks" / "01_first_light.ipynb"


def main() -> int:
    """Execute and convert; returns the exit code of what failed, or 0."""
    directory = PROJECT / "report"
    executed = directory / "first_light.ipynb"
    binaries = Path(sys.executable).parent
    commands = [
        [str(binaries / "papermill"), "--no-progress-bar", "--cwd", str(NOTEBOOK.parent), str(NOTEBOOK), str(executed),
         "-p", "report_directory", str(directory)],
        [str(binaries / "jupyter"), "nbconvert", "--to", "html", "--no-input", "--log-level", "WARN", str(executed)],
    ]  # fmt: skip
    for command in commands:
        code = subprocess.run(command, cwd=PROJECT, check=False).returncode
        if code:
            return code
    print(f"wrote {directory / 'first_light.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
