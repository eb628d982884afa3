# SPDX-License-Identifier: Apache-2.0
"""Runs a bench in a guest of User Mode Linux, whose kernel has what this machine's may lack, and prints its figures."""

from __future__ import annotations

import json
import re
import sys
import tempfile
from pathlib import Path

_MARK = "figures: "


def show(figures: dict) -> None:
    """In the guest: print figures for `main`."""
    sys.stdout.write(_MARK + json.dumps(figures) + "\n")


def main(file: str) -> None:
    """Run a file, relative to the project, by pytest in a guest, and print its figures as a table."""
    # The guest does not have the lab's code.
    from lab import kernel as kernels
    from lab.config import Lab
    from lab.image import Image, digest
    from tests.lab.suite import run_in_guest

    cache = Lab().cache
    found, image = kernels.cached(cache), Image(cache, digest())
    if found is None or not image.exists():
        raise SystemExit(
            "there is no kernel or image of driver uml in the cache: python -m lab kernel; python -m lab image"
        )
    with tempfile.TemporaryDirectory() as folder:
        report = run_in_guest(found, image, [file], Path(folder))
    line = re.search(rf"{_MARK}(.*)", report.console)
    if line is None:
        raise SystemExit(report.console[-8000:])
    for name, value in json.loads(line[1]).items():
        sys.stdout.write(f"{name:<28} {value:>12}\n")
