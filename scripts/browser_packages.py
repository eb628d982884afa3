# SPDX-License-Identifier: Apache-2.0
"""Install the browser of the browser tests, which are skipped where that is not possible."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from lab import packages
from lab.errors import LabError
from tests.browser.chromium import PACKAGES


def main() -> int:
    """Install what is missing; it is no failure when apt cannot."""
    try:
        lacking = packages.missing(list(PACKAGES.values()))
        if lacking:
            packages.install(lacking)
        print(f"installed {' '.join(lacking)}" if lacking else "unchanged")
    except LabError as error:
        print(f"browser tests will be skipped: {error}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
