# SPDX-License-Identifier: Apache-2.0
"""Write the report of an upgrade of Layer2 networks as upgrade_layer2.html, and its picture, into a directory."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from scripts.stages import PROJECT

sys.path.insert(0, str(PROJECT / "notebooks"))

from heddle_notebook.upgrade import Upgrade


def main() -> int:
    """Write the page; upgrade_layer2.json must be there already."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path, help="where upgrade_layer2.json is")
    directory = parser.parse_args().directory
    page = directory / "upgrade_layer2.html"
    page.write_text(Upgrade(str(directory)).page(), encoding="utf-8")
    print(f"wrote {page}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
