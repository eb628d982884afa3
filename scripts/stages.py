# SPDX-License-Identifier: Apache-2.0
"""Stages of a long job: each a command whose output is shown as it comes, and a table of durations at the end."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
BINARIES = Path(sys.executable).parent


@dataclass(frozen=True)
class Stage:
    """One command, with what it needs in its environment besides ours; `directory` is below the project."""

    name: str
    command: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    directory: str = "."


@dataclass(frozen=True)
class Result:
    """What became of a stage."""

    name: str
    state: str
    seconds: float


def run(stage: Stage) -> Result:
    """Run a stage."""
    print(f"\n=== {stage.name}", flush=True)
    start = time.monotonic()
    code = subprocess.run(
        stage.command,
        cwd=PROJECT / stage.directory,
        env={**os.environ, "PATH": f"{BINARIES}:{os.environ['PATH']}", **stage.environment},
        stdin=subprocess.DEVNULL,
        check=False,
    ).returncode
    result = Result(stage.name, "FAILED" if code else "ok", time.monotonic() - start)
    print(f"=== {stage.name}: {result.state} after {result.seconds:.1f} s", flush=True)
    return result


def run_all(stages: list[Stage], *, go_on: bool, always: list[Stage] | None = None) -> int:
    """Run stages in order, then `always`; returns 1 when one failed.

    With `go_on` a failure does not keep the later stages from running.
    """
    results: list[Result] = []
    for stage in stages:
        failed = any(result.state == "FAILED" for result in results)
        results.append(Result(stage.name, "not run", 0.0) if failed and not go_on else run(stage))
    results += [run(stage) for stage in always or []]
    failed = any(result.state == "FAILED" for result in results)
    total = Result("total", "FAILED" if failed else "ok", sum(result.seconds for result in results))
    width = max(len(result.name) for result in results)
    print("\n" + "stage".ljust(width) + "  result    seconds")
    for result in [*results, total]:
        print(f"{result.name.ljust(width)}  {result.state.ljust(8)}  {result.seconds:7.1f}")
    counts = [sum(result.state == state for result in results) for state in ("ok", "FAILED", "not run")]
    print("\nstages: {} passed, {} failed, {} skipped".format(*counts), flush=True)
    return 1 if failed else 0
