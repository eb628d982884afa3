# SPDX-License-Identifier: Apache-2.0
"""A job on the terminal: a live line for each running stage, a line for each that is over, a table at the end."""

from __future__ import annotations

import collections
import contextlib
import sys
import textwrap
import time
from collections.abc import Iterator

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

# Seconds between two lines of progress, where there is no terminal.
HEARTBEAT = 60.0
# Failures of a stage that the end of the output repeats.
BRIEFS = 8
STYLES = {"passed": "green", "FAILED": "bold red", "skipped": "yellow"}


def clock(seconds: float) -> str:
    """Return seconds as minutes and seconds."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


class Screen:
    """Draws a job. Without a terminal there are plain lines: when a stage begins, when it ends, and what runs."""

    def __init__(self, *, verbose: bool) -> None:
        self.verbose = verbose
        self.console = Console(highlight=False, emoji=False, markup=False, soft_wrap=True)
        self.live = self.console.is_terminal and not self.console.is_dumb_terminal
        self._job = None
        self._begun: set[str] = set()
        self._said = time.monotonic()

    @contextlib.contextmanager
    def drawn(self, job) -> Iterator[None]:
        """Show the job while the body runs."""
        self._job = job
        if not self.live:
            yield
            return
        with Live(console=self.console, transient=True, refresh_per_second=4, get_renderable=self._lines):
            yield

    def _lines(self) -> Group:
        if any(run.stage.terminal for run in self._job.running):
            return Group()
        over = sum(bool(run.state) for run in self._job.runs.values())
        lines = [Text(self._running(run), no_wrap=True, overflow="ellipsis") for run in self._job.running]
        total = f"{clock(time.monotonic() - self._job.began)}  {over} of {len(self._job.runs)} stages"
        stopping = "  interrupted: cleaning up; once more to kill what runs" if self._job.signals else ""
        return Group(*lines, Text(total + stopping, style="dim", no_wrap=True, overflow="ellipsis"))

    @staticmethod
    def _running(run) -> str:
        seconds = time.monotonic() - run.began
        return f"  ...    {clock(seconds):>6}  {run.stage.name}  {run.progress.line()}".rstrip()

    def _print(self, text: str, style: str = "") -> None:
        self.console.print(Text(text, style=style))
        sys.stdout.flush()

    def tick(self) -> None:
        """Print the progress at intervals."""
        for run in self._job.runs.values():
            self._raw(run)
            if run.began is not None and run.stage.name not in self._begun:
                self._begun.add(run.stage.name)
                if (not self.live or run.stage.terminal) and not run.state:
                    self._print(f"begins          {run.stage.name}")
        if not self.live and time.monotonic() - self._said > HEARTBEAT:
            self._said = time.monotonic()
            for run in self._job.running:
                self._print(self._running(run))

    def _raw(self, run) -> None:
        lines = run.progress.take_printed()
        if self.verbose and lines:
            prefix = f"[{run.stage.name}] " if self._job.parallel > 1 else ""
            self._print("\n".join(prefix + line for line in lines))
            self._said = time.monotonic()

    def ended(self, run) -> None:
        """Show a stage that is over; why, if it failed."""
        self._raw(run)
        why = f"  ({run.text})" if run.state == "skipped" else ""
        self._print(f"{run.state:<7} {run.seconds:6.1f} s  {run.stage.name}{why}", STYLES[run.state])
        if run.state == "FAILED":
            self._print(textwrap.indent(run.text, "    ") + f"\n    log: {run.log}\n")
        self._said = time.monotonic()

    def slowest(self, runs: list) -> None:
        """Show which tests of each stage took longest."""
        for run in runs:
            if run.progress.slowest:
                self._print(f"\nslowest tests  {run.stage.name}")
            for name, seconds in run.progress.slowest:
                self._print(f"  {seconds:6.1f}  {name.removeprefix('tests/')}")

    def table(self, runs: list, seconds: float) -> None:
        """Show all results with seconds and processor seconds, and why tests were skipped."""
        failed = any(run.state == "FAILED" for run in runs)
        width = max(len(run.stage.name) for run in runs)
        self._print(f"\n{'stage'.ljust(width)}  result   seconds  processor")
        for run in runs:
            self._print(f"{run.stage.name.ljust(width)}  {run.state:<7}  {run.seconds:7.1f}  {run.processor:9.1f}")
            for name, part in run.progress.parts if len(run.progress.parts) > 1 else ():
                self._print(f"{'  ' + name:{width}}           {part:7.1f}")
        processor = sum(run.processor for run in runs)
        self._print(f"{'total'.ljust(width)}  {'FAILED' if failed else 'passed'}   {seconds:7.1f}  {processor:9.1f}")
        reasons: collections.Counter[str] = collections.Counter(reason for run in runs for reason in run.skips)
        if reasons:
            self._print(f"\n{reasons.total()} tests skipped")
            for reason, count in reasons.most_common():
                self._print(f"  {count:4d}  {reason}")
        if failed:
            # The end of the output is what is kept of a job that ran elsewhere.
            self._print("\nwhat failed, and its log")
            for run in runs:
                if run.state == "FAILED":
                    self._print(f"  {run.stage.name}: {run.log}")
                    briefs = run.progress.briefs()
                    for text in briefs[:BRIEFS]:
                        self._print(textwrap.indent(text, "    "))
                    if len(briefs) > BRIEFS:
                        self._print(f"    and {len(briefs) - BRIEFS} more")
