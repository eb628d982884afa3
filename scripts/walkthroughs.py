# SPDX-License-Identifier: Apache-2.0
"""Run walkthroughs by papermill, on the lab or with `-p inventory PATH` on any inventory.

The executed copies are the record, as notebooks and as HTML, in walkthroughs/ of the report's directory.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

import yaml

from scripts.notebook_runner import Runner

PROJECT = Path(__file__).resolve().parent.parent
SOURCES = PROJECT / "notebooks" / "walkthroughs"
# In the order in which they can follow each other: those of `make test`, from hosts without Heddle, ...
FAST = ("01_first_light", "90_audit")
# ... and all of them, on a cluster that begins with the old Layer2 topology.
LONG = (
    "10_layer2_upgrade", "01_first_light", "02_user_defined_networks", "03_gateways", "04_services_and_policies",
    "05_address_pools", "06_mesh", "91_operations", "92_chaos", "90_audit",
)  # fmt: skip
# On hosts whose kernel has FoU.
TUNNELS = ("07_egress_nat",)
# What a page needs to run without a person.
PARAMETERS = {"91_operations": {"operator": "test", "confirmed": ["add", "drain", "restore", "release"]}}
REPORT = Path(os.environ.get("LAB_REPORT") or PROJECT / "report").resolve()


def main() -> int:
    """Execute those named, or the fast ones; returns 1 when a cell failed."""
    names = sorted(path.stem for path in SOURCES.glob("*.ipynb"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--long", action="store_true", help=f"all: {', '.join(LONG)}")
    parser.add_argument("--tunnels", action="store_true", help=f"for kernels with FoU: {', '.join(TUNNELS)}")
    parser.add_argument(
        "walkthroughs", nargs="*", metavar="NAME", help=f"any of {', '.join(names)}; default: {', '.join(FAST)}"
    )
    parser.add_argument(
        "-p", "--parameter", nargs=2, action="append", default=[], metavar=("NAME", "YAML"), help="of the page"
    )
    options = parser.parse_args()
    chosen = options.walkthroughs or (LONG if options.long else TUNNELS if options.tunnels else FAST)
    unknown = [name for name in chosen if name not in names]
    if unknown:
        parser.error(f"unknown walkthrough {', '.join(unknown)}; there are {', '.join(names)}")
    directory = REPORT / "walkthroughs"
    directory.mkdir(parents=True, exist_ok=True)
    failed = False
    with Runner(SOURCES, show_input=True) as runner:
        for name in chosen:
            given = {key: yaml.safe_load(text) for key, text in options.parameter}
            began = time.monotonic()
            page, problem = runner.run(
                name, directory / f"{name}.ipynb", {"report": str(REPORT), **PARAMETERS.get(name, {}), **given}
            )
            if problem:
                failed = True
                print(f"error: {name}: {problem}", flush=True)
            print(f"{time.monotonic() - began:7.1f} s  {page}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
