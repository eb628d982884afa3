# SPDX-License-Identifier: Apache-2.0
"""Stages of a long job: each a command whose output is shown as it comes, and a table of durations at the end.

Stages aside run one after the other beside the rest; what each printed is shown when it is over.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
BINARIES = Path(sys.executable).parent


@dataclass(frozen=True)
class Stage:
    """One command, with what it needs in its environment besides ours; `directory` is below the project.

    One that is to be `alone` begins when all stages aside are over.
    """

    name: str
    command: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    directory: str = "."
    alone: bool = False


@dataclass(frozen=True)
class Result:
    """What became of a stage."""

    name: str
    state: str
    seconds: float


def run(stage: Stage, output=None) -> Result:
    """Run a stage; its output goes to a file if there is one."""
    start = time.monotonic()
    code = subprocess.run(
        stage.command,
        cwd=PROJECT / stage.directory,
        env={**os.environ, "PATH": f"{BINARIES}:{os.environ['PATH']}", **stage.environment},
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output and subprocess.STDOUT,
        check=False,
    ).returncode
    return Result(stage.name, "FAILED" if code else "ok", time.monotonic() - start)


def run_shown(stage: Stage) -> Result:
    """Run a stage whose output is shown as it comes."""
    print(f"\n=== {stage.name}", flush=True)
    result = run(stage)
    print(f"=== {stage.name}: {result.state} after {result.seconds:.1f} s", flush=True)
    return result


def run_aside(stage: Stage) -> tuple[Result, bytes]:
    """Run a stage; return what it printed as well."""
    with tempfile.TemporaryFile() as output:
        result = run(stage, output)
        output.seek(0)
        return result, output.read()


class Aside:
    """Stages beside the others, begun at once."""

    def __init__(self, stages: list[Stage]) -> None:
        self._pool = ThreadPoolExecutor(1)
        self._left: list[Future] = [self._pool.submit(run_aside, stage) for stage in stages]

    def show(self, *, all_of_them: bool) -> list[Result]:
        """Show those that are over since the last time, or wait for all of them; return their results."""
        results = []
        while self._left and (all_of_them or self._left[0].done()):
            result, output = self._left.pop(0).result()
            print(f"\n=== {result.name} (aside)", flush=True)
            sys.stdout.buffer.write(output)
            print(f"=== {result.name}: {result.state} after {result.seconds:.1f} s", flush=True)
            results.append(result)
        return results


def run_all(
    stages: list[Stage], *, go_on: bool, always: list[Stage] | None = None, aside: list[Stage] | None = None
) -> int:
    """Run stages in order, then `always`, and `aside` beside them; returns 1 when one failed.

    With `go_on` a failure does not keep the later stages from running.
    """
    start = time.monotonic()
    results: list[Result] = []
    beside = Aside(aside or [])
    for stage in stages:
        results += beside.show(all_of_them=stage.alone)
        failed = any(result.state == "FAILED" for result in results)
        results.append(Result(stage.name, "not run", 0.0) if failed and not go_on else run_shown(stage))
    results += beside.show(all_of_them=True)
    results += [run_shown(stage) for stage in always or []]
    failed = any(result.state == "FAILED" for result in results)
    total = Result("total", "FAILED" if failed else "ok", time.monotonic() - start)
    width = max(len(result.name) for result in results)
    print("\nstage".ljust(width + 1) + "  result    seconds")
    for result in [*results, total]:
        print(f"{result.name.ljust(width)}  {result.state.ljust(8)}  {result.seconds:7.1f}")
    counts = [sum(result.state == state for result in results) for state in ("ok", "FAILED", "not run")]
    print("\nstages: {} passed, {} failed, {} skipped".format(*counts), flush=True)
    return 1 if failed else 0
