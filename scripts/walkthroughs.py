# SPDX-License-Identifier: Apache-2.0
"""Run the walkthroughs on the lab by papermill; the executed copies are the record, in the report's directory."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import papermill

PROJECT = Path(__file__).resolve().parent.parent
SOURCES = PROJECT / "notebooks" / "walkthroughs"
# Not in `make test`: in the order in which they can follow each other on one cluster, as --long runs them.
LONG = ("10_layer2_upgrade", "91_operations", "92_chaos")
# What a page needs to run without a person.
PARAMETERS = {"91_operations": {"operator": "test", "confirmed": ["add", "drain", "restore", "release"]}}
REPORT = Path(os.environ.get("LAB_REPORT") or PROJECT / "report").resolve()


def main() -> int:
    """Execute those named, or all that do not take long; returns 1 when a cell failed."""
    names = sorted(path.stem for path in SOURCES.glob("*.ipynb"))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--long", action="store_true", help=f"those that take long: {', '.join(LONG)}")
    parser.add_argument(
        "walkthroughs", nargs="*", metavar="NAME", help=f"any of {', '.join(names)}; default: the others"
    )
    options = parser.parse_args()
    chosen = options.walkthroughs or (LONG if options.long else [name for name in names if name not in LONG])
    unknown = [name for name in chosen if name not in names]
    if unknown:
        parser.error(f"unknown walkthrough {', '.join(unknown)}; there are {', '.join(names)}")
    directory = REPORT / "walkthroughs"
    directory.mkdir(parents=True, exist_ok=True)
    failed = False
    for name in chosen:
        executed = directory / f"{name}.ipynb"
        parameters = {"report": str(REPORT), **PARAMETERS.get(name, {})}
        try:
            papermill.execute_notebook(
                str(SOURCES / f"{name}.ipynb"), str(executed), parameters=parameters, progress_bar=False,
                cwd=str(SOURCES),
            )  # fmt: skip
        except papermill.PapermillExecutionError as error:
            failed = True
            print(f"error: {name}: cell {error.exec_count}: {error.ename}: {error.evalue}", flush=True)
        else:
            print(f"wrote {executed}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
