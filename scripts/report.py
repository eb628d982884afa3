# SPDX-License-Identifier: Apache-2.0
"""Run the notebooks on what the playbooks left in the report's directory, and write a page there for each.

All are run by papermill in this one process, whose libraries take longer to load than the notebooks to run. With
`--wait` it loads them, starts the kernels, and goes on when its standard input ends.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

NOTEBOOKS = {"01_first_light": "first_light", "02_gateways": "gateways", "03_layer2_upgrade": "layer2_upgrade"}
# Of something that not every cluster has been through, and that may have been done without measuring its traffic.
UPGRADE, UPGRADE_REPORT = "03_layer2_upgrade", "upgrade_layer2.json"
PROJECT = Path(__file__).resolve().parent.parent
SOURCES = PROJECT / "notebooks"
REPORT = Path(os.environ.get("LAB_REPORT") or PROJECT / "report")


def has_subject(name: str, directory: Path) -> bool:
    """Return whether a report's directory has what a notebook is about."""
    if name != UPGRADE:
        return True
    path = directory / UPGRADE_REPORT
    return path.exists() and bool(json.loads(path.read_text(encoding="utf-8"))["traffic"])


def main() -> int:
    """Execute and convert; returns 1 when a notebook failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("notebooks", nargs="*", metavar="NOTEBOOK", help=f"any of {', '.join(NOTEBOOKS)}; default: all")
    parser.add_argument("--wait", action="store_true", help="get ready, and begin when standard input ends")
    options = parser.parse_args()
    names = options.notebooks or list(NOTEBOOKS)
    unknown = [name for name in names if name not in NOTEBOOKS]
    if unknown:
        parser.error(f"unknown notebook {', '.join(unknown)}; there are {', '.join(NOTEBOOKS)}")

    sys.path.insert(0, str(PROJECT / "collections"))
    from ansible_collections.heddle.ovn.plugins.plugin_utils.pages.fleet.page import fleet_page
    from scripts.notebook_runner import Runner

    names = [name for name in names if has_subject(name, REPORT)]
    with Runner(SOURCES) as runner:
        if options.wait:
            runner.prepare(names)
            sys.stdin.buffer.read()
        failed = False
        for name in names:
            executed = REPORT / f"{NOTEBOOKS[name]}.ipynb"
            page, problem = runner.run(name, executed, {"report_directory": str(REPORT)})
            failed = failed or bool(problem)
            print(f"error: notebook {name}: {problem}" if problem else f"wrote {page}", flush=True)
    # It has links to the pages that are there.
    index = REPORT / "index.html"
    index.write_text(fleet_page(REPORT), encoding="utf-8")
    print(f"wrote {index}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
