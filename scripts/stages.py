# SPDX-License-Identifier: Apache-2.0
"""Long jobs: stages, each a command that waits for others, some of them side by side, with one line for each.

A stage begins when those that it comes after are over and fewer than `parallel` others run. What it prints goes to
report/logs/JOB/NN-STAGE.log, its result to the table at the end and, for machines, to report/junit/JOB.xml.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from scripts.stage_files import Progress, junit, log_path
from scripts.stage_screen import Screen

PROJECT = Path(__file__).resolve().parent.parent
BINARIES = Path(sys.executable).parent
REPORT = Path(os.environ.get("LAB_REPORT") or PROJECT / "report")
PASSED, FAILED, SKIPPED = "passed", "FAILED", "skipped"
# Seconds between two looks at what runs, and those in which an interrupted stage may clean up before it is killed.
INTERVAL, GRACE = 0.1, 60.0


@dataclass(frozen=True)
class Stage:
    """One command, with what it needs in its environment besides ours; `directory` is below the project.

    It waits for the stages named in `after` to be over, and for those in `needs` to have passed; when one of the latter
    did not, it is skipped. Names of stages that are not part of the job count as passed.
    `always`: it is run even when the job was interrupted.
    `early`: it is started when `early_after` are over and gets the end of its input when its turn has come, so it can
    load its libraries meanwhile; the seconds before are not counted.
    `terminal`: it may ask for something there, as sudo does, so the live lines are taken away meanwhile.
    """

    name: str
    command: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    directory: str = "."
    after: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    always: bool = False
    early: bool = False
    early_after: tuple[str, ...] = ()
    terminal: bool = False


@dataclass
class Run:
    """A stage in a job: `state` is empty until it is over; `text` is the reason of a failure or skip.

    `processor` are the processor seconds of its command and of all processes below that were waited for. Programs that
    leave the command, as the hosts of a lab do, are not among them.
    """

    stage: Stage
    log: Path
    progress: Progress
    state: str = ""
    seconds: float = 0.0
    processor: float = 0.0
    text: str = ""
    process: subprocess.Popen | None = None
    began: float | None = None
    skips: list[str] = field(default_factory=list)

    def start(self) -> None:
        """Start the command, in a process group of its own."""
        binaries = f"{BINARIES}:{os.environ['PATH']}"
        with self.log.open("wb") as output:
            try:
                self.process = subprocess.Popen(
                    self.stage.command,
                    cwd=PROJECT / self.stage.directory,
                    env={**os.environ, "PATH": binaries, **self.progress.environment, **self.stage.environment},
                    stdin=subprocess.PIPE if self.stage.early else subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    # Without a terminal of its own a program cannot ask there.
                    start_new_session=not self.stage.terminal,
                )
            except OSError as error:
                self.over(FAILED, f"{self.stage.command[0]} cannot be run: {error.strerror}")

    def go(self) -> None:
        """Let the stage begin."""
        self.began = time.monotonic()
        if self.process is None:
            self.start()
        if self.process is not None and self.process.stdin is not None:
            self.process.stdin.close()

    def signal(self, number: int) -> None:
        """Send a signal to the command and all that it started."""
        if self.process is not None and self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                if self.stage.terminal:
                    # Not by Popen.send_signal, which would wait for a process that has ended.
                    os.kill(self.process.pid, number)
                else:
                    os.killpg(self.process.pid, number)

    def _poll(self) -> int | None:
        """Return the exit code once the command has ended; what it used of the processors is known then."""
        if self.process.returncode is None:
            ended, status, usage = os.wait4(self.process.pid, os.WNOHANG)
            if ended:
                self.process.returncode = os.waitstatus_to_exitcode(status)
                self.processor = usage.ru_utime + usage.ru_stime
        return self.process.returncode

    def look(self, interrupted: bool) -> bool:
        """Return whether the command has just ended; its result is known then."""
        if self.process is None or self.state:
            return False
        code = self._poll()
        self.progress.read()
        if code is None or (self.began is None and not interrupted and code == 0):
            return False
        if interrupted and not self.stage.always:
            self.signal(signal.SIGKILL)
            self.over(FAILED, "interrupted")
        elif code:
            how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
            self.over(FAILED, self.progress.why_failed(how))
        else:
            self.over(PASSED)
        return True

    def over(self, state: str, text: str = "") -> None:
        """Note the result."""
        self.state, self.text, self.skips = state, text, self.progress.skips
        self.seconds = time.monotonic() - self.began if self.began is not None else 0.0


class Job:
    """Stages that are run until all are over."""

    def __init__(self, name: str, stages: list[Stage], parallel: int, work: Path) -> None:
        names = [stage.name for stage in stages]
        assert len(names) == len({*names}), "two stages have one name"
        self.parallel = parallel
        self.runs: dict[str, Run] = {}
        for number, stage in enumerate(stages, 1):
            log = log_path(REPORT / "logs" / name, number, stage.name)
            self.runs[stage.name] = Run(stage, log, Progress(work / str(number), log))
        self.began = time.monotonic()
        self.signals: list[int] = []
        self._interrupted_at: float | None = None
        self._handled = 0

    @property
    def running(self) -> list[Run]:
        """Stages that are at work, in order."""
        return [run for run in self.runs.values() if run.began is not None and not run.state]

    def _wait(self, *names: str) -> bool:
        return any(name in self.runs and not self.runs[name].state for name in names)

    def _missing(self, run: Run) -> list[str]:
        return [name for name in run.stage.needs if name in self.runs and self.runs[name].state != PASSED]

    def step(self) -> list[Run]:
        """Start what can begin, and return the stages whose result has become known."""
        ended = [run for run in self.runs.values() if run.look(bool(self.signals))]
        self._interrupt()
        for run in self.runs.values():
            if run.state or run.began is not None or self._wait(*run.stage.after, *run.stage.needs):
                continue
            missing = self._missing(run)
            if missing or (self.signals and not run.stage.always):
                run.signal(signal.SIGKILL)
                run.over(SKIPPED, f"{missing[0]} did not pass" if missing else "interrupted")
                ended.append(run)
            elif len(self.running) < self.parallel:
                run.go()
                # A command that cannot be run has its result at once.
                ended += [run] if run.state else []
        for run in self.runs.values():
            stage = run.stage
            if stage.early and not (self.signals or run.process or run.state or self._wait(*stage.early_after)):
                run.start()
        return ended

    def _interrupt(self) -> None:
        """Forward an interruption: SIGINT first, SIGKILL at the second one or after a time-out."""
        if not self.signals:
            return
        now = time.monotonic()
        if self._interrupted_at is None:
            self._interrupted_at = now
        late = len(self.signals) > 1 or now - self._interrupted_at > GRACE
        wanted = 2 if late else 1
        if self._handled < wanted:
            self._handled = wanted
            for run in self.runs.values():
                if run.process is not None and not run.state and not run.stage.always:
                    run.signal(signal.SIGKILL if late else signal.SIGINT)

    @property
    def over(self) -> bool:
        """Whether all stages have a result."""
        return all(run.state for run in self.runs.values())


@contextlib.contextmanager
def _interruptible(job: Job) -> Iterator[Callable[[], None]]:
    """Note signals that interrupt the job; yields what is to be done when its terminal was closed.

    Stages have sessions of their own, so they would not notice that.
    """
    terminals = [number for number in (1, 2) if os.isatty(number)]

    def note(number: int, _frame: object = None) -> None:
        if number == signal.SIGHUP:
            # What is printed from now on would fail, and so end this program before its stages.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            for terminal in terminals:
                os.dup2(nowhere, terminal)
            os.close(nowhere)
        job.signals.append(number)

    # nohup(1) ignores this signal for a job that is to go on without its terminal.
    kept = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    numbers = (signal.SIGINT, signal.SIGTERM, *(() if kept else (signal.SIGHUP,)))
    handlers = {number: signal.signal(number, note) for number in numbers}
    try:
        yield lambda: note(signal.SIGHUP)
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def run_all(name: str, stages: list[Stage], *, parallel: int = 1, summary: bool = True) -> int:
    """Run the stages of a job; returns 1 when one failed or the job was interrupted.

    With `summary` the last line is `N passed, N failed` and perhaps `, N skipped`, counting stages.
    """
    with tempfile.TemporaryDirectory(prefix="heddle-stages-") as work:
        job = Job(name, stages, parallel, Path(work))
        screen = Screen(verbose=os.environ.get("VERBOSE", "0") not in ("", "0"))
        with _interruptible(job) as hang_up, screen.drawn(job):
            while not job.over:
                try:
                    for run in job.step():
                        screen.ended(run)
                    screen.tick()
                except OSError as error:
                    # The terminal was closed, and its signal has not arrived yet.
                    if error.errno != errno.EIO:
                        raise
                    hang_up()
                time.sleep(INTERVAL)
    runs = list(job.runs.values())
    junit(REPORT / "junit" / f"{name}.xml", name, runs)
    counts = {state: sum(run.state == state for run in runs) for state in (PASSED, FAILED, SKIPPED)}
    failed = bool(counts[FAILED] or job.signals)
    screen.slowest(runs)
    screen.table(runs, time.monotonic() - job.began)
    if summary:
        skipped = f", {counts[SKIPPED]} skipped" if counts[SKIPPED] else ""
        print(f"\n{counts[PASSED]} passed, {counts[FAILED]} failed{skipped}", flush=True)
    return 1 if failed else 0


def chain(stages: list[Stage], *, first_needed: bool = False) -> list[Stage]:
    """Return stages of which each waits for the one before; with `first_needed` all others need the first."""
    found: list[Stage] = []
    for stage in stages:
        before = (found[-1].name,) if found else ()
        needed = (found[0].name,) if found and first_needed else ()
        found.append(Stage(**{**vars(stage), "after": stage.after + before, "needs": stage.needs + needed}))
    return found
