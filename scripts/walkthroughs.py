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
REPORT = Path(os.environ.get("LAB_REPORT") or PROJECT / "report").resolve()


def main() -> int:
    """Execute those named, or all; returns 1 when a cell failed."""
    names = sorted(path.stem for path in SOURCES.glob("*.ipynb"))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("walkthroughs", nargs="*", metavar="NAME", help=f"any of {', '.join(names)}; default: all")
    chosen = parser.parse_args().walkthroughs or names
    unknown = [name for name in chosen if name not in names]
    if unknown:
        parser.error(f"unknown walkthrough {', '.join(unknown)}; there are {', '.join(names)}")
    directory = REPORT / "walkthroughs"
    directory.mkdir(parents=True, exist_ok=True)
    failed = False
    for name in chosen:
        executed = directory / f"{name}.ipynb"
        try:
            papermill.execute_notebook(
                str(SOURCES / f"{name}.ipynb"), str(executed), parameters={"report": str(REPORT)},
                progress_bar=False, cwd=str(SOURCES),
            )  # fmt: skip
        except papermill.PapermillExecutionError as error:
            failed = True
            print(f"error: {name}: cell {error.exec_count}: {error.ename}: {error.evalue}", flush=True)
        else:
            print(f"wrote {executed}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
