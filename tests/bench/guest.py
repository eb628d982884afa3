# SPDX-License-Identifier: Apache-2.0
"""Runs a bench in a guest of User Mode Linux, whose kernel has what this machine's may lack, and prints its figures.

A guest is a few processes of this machine, so what something costs in it can be measured as their processor time, which
depends less on what else runs here than time by the clock. The guest writes a mark on its console before and after
(`metered`), and is idle for a moment at each, while this side reads the time (proc_pid_schedstat(5)).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

_MARK = "figures: "
_METER = re.compile(r"meter (begin|end) (\S+)")
_CONSOLE = Path("/dev/console")
# Seconds that the guest is idle at a mark, and that a bench may take.
_IDLE, _LIMIT = 0.5, 1200


def show(figures: dict) -> None:
    """In the guest: print figures for `main`."""
    sys.stdout.write(_MARK + json.dumps(figures) + "\n")


def metered(name: str, work: Callable[[], None]) -> None:
    """In the guest: do something whose processor time `main` gets; names have no blanks."""
    _CONSOLE.write_text(f"meter begin {name}\n")
    time.sleep(_IDLE)
    work()
    _CONSOLE.write_text(f"meter end {name}\n")
    time.sleep(_IDLE)


class Meter:
    """Processor time of a guest between its marks: `found` has, by name, pairs (processor time, time by the clock)."""

    def __init__(self) -> None:
        self.found: dict[str, list[tuple[float, float]]] = {}
        self._began = 0.0, 0.0

    def seen(self, process: int, line: str) -> None:
        """Handle a line of the guest's console."""
        mark = _METER.search(line)
        if mark is None:
            return
        now = processor_time(process), time.monotonic()
        if mark[1] == "begin":
            self._began = now
        else:
            used = now[0] - self._began[0], now[1] - self._began[1]
            self.found.setdefault(mark[2], []).append(used)
            sys.stderr.write(f"{mark[2]}: {used[0]:.3f} s of a processor in {used[1]:.3f} s\n")


def processor_time(process: int) -> float:
    """Return the seconds that a process and its descendants have run, of those that are still there."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # After the name, which may have blanks and brackets (proc_pid_stat(5)).
            parent = path.read_text().rpartition(")")[2].split()[1]
            children.setdefault(int(parent), []).append(int(path.parent.name))
    total, left = 0.0, [process]
    while left:
        one = left.pop()
        left += children.get(one, [])
        for path in Path(f"/proc/{one}/task").glob("*/schedstat"):
            with contextlib.suppress(OSError):
                total += int(path.read_text().split()[0]) / 1e9
    return total


def main(file: str, derived: Callable[[dict[str, list[tuple[float, float]]]], dict] = lambda _found: {}) -> None:
    """Run a file, relative to the project, by pytest in a guest, and print its figures as a table.

    `derived` makes figures of what was metered. The only option is `--help`, which prints the docstring of the program.
    """
    parse_no_arguments()
    meter = Meter()
    table(measured(file, meter) | derived(meter.found))


def parse_no_arguments() -> None:
    """Take no option but `--help`, which prints the docstring of the program."""
    argparse.ArgumentParser(
        description=sys.modules["__main__"].__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()


def measured(file: str, meter: Meter, *, clock: bool = False) -> dict:
    """Run a file as `main` and return its figures; with `clock` programs load the library of the lab's hosts."""
    # The guest does not have the lab's code.
    from lab import clock as clocks
    from lab import kernel as kernels
    from lab.config import Lab
    from lab.image import Image, digest
    from tests.lab.suite import run_in_guest

    cache = Lab().cache
    found, image, preload = kernels.cached(cache), Image(cache, digest()), None
    if found is None or not image.exists():
        raise SystemExit(
            "there is no kernel or image of driver uml in the cache: python -m lab kernel; python -m lab image"
        )
    if clock and (preload := clocks.ensure(cache)) is None:
        raise SystemExit(f"there is no compiler for the clock: install {clocks.COMPILER}")
    with tempfile.TemporaryDirectory() as folder:
        report = run_in_guest(found, image, [file], Path(folder), limit=_LIMIT, seen=meter.seen, preload=preload)
    line = re.search(rf"{_MARK}(.*)", report.console)
    if line is None:
        raise SystemExit(report.console[-8000:])
    return json.loads(line[1])


def table(figures: dict) -> None:
    """Print figures by name."""
    for name, value in figures.items():
        sys.stdout.write(f"{name:<34} {value}\n")
