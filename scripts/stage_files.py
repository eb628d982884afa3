# SPDX-License-Identifier: Apache-2.0
"""What a stage leaves behind: its log, its progress, and its result for machines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree

# Lines of a log that are shown when a stage fails without a message.
LOG_LINES = 40
# Of each failure, how much the end of a job repeats: the lines that say why, and characters of each.
BRIEF_LINES, BRIEF_WIDTH = 4, 300
# The error of a test, and that of a task of a playbook, as their outputs mark them.
_ERROR, _FATAL = re.compile(r"E {2,}\S"), re.compile(r"\bfatal: \[")
_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
# What XML cannot hold.
_FORBIDDEN = re.compile(r"[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def log_path(directory: Path, number: int, name: str) -> Path:
    """Return the file for a stage's output; the first stage of a job removes the logs of the job's last run."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if number == 1:
        for old in directory.glob("[0-9][0-9]-*.log"):
            old.unlink()
    return directory / f"{number:02d}-{slug(name)}.log"


def slug(name: str) -> str:
    """Return a name as part of a file's name."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


class Progress:
    """The progress of a running stage: events that it writes, a line of JSON each, else the last line of its log.

    Known events: `done`, `of`, `task`, `play` (how far it is), `failed` with `message` and `on`, `skipped` (why),
    `ended` (a playbook) with `seconds`, `slowest` (tests, each with seconds).
    """

    def __init__(self, stream: Path, log: Path) -> None:
        self._stream, self._log = stream, log
        self._positions = {stream: 0, log: 0}
        self._rest = {stream: "", log: ""}
        self._state: dict = {}
        self._last = ""
        self.printed: list[str] = []
        self.failures: list[str] = []
        self.skips: list[str] = []
        # Playbooks that are over, with seconds.
        self.parts: list[tuple[str, float]] = []
        # The tests that took longest, with seconds.
        self.slowest: list[tuple[str, float]] = []
        # All that Ansible prints goes to the stage's log, so it needs no other.
        self.environment = {
            "HEDDLE_PROGRESS_STREAM": str(stream),
            "HEDDLE_VERBOSE": "1",
            "HEDDLE_LOG_DIRECTORY": "",
            "PYTHONUNBUFFERED": "1",
        }

    def _lines(self, path: Path) -> list[str]:
        """Return whole lines that have been written since the last call."""
        try:
            with path.open("rb") as file:
                file.seek(self._positions[path])
                new = file.read()
        except FileNotFoundError:
            return []
        self._positions[path] += len(new)
        *lines, self._rest[path] = (self._rest[path] + new.decode("utf-8", "replace")).split("\n")
        return lines

    def read(self) -> None:
        """Take in what is new."""
        for line in self._lines(self._stream):
            event = json.loads(line)
            if "done" in event:
                self._state = event
            elif "failed" in event:
                on = f"  on {' '.join(event['on'])}" if event.get("on") else ""
                self.failures.append(f"{event['failed']}{on}\n{event['message']}")
            elif "skipped" in event:
                self.skips.append(event["skipped"])
            elif "ended" in event:
                self.parts.append((event["ended"], event["seconds"]))
            elif "slowest" in event:
                self.slowest = [(name, seconds) for name, seconds in event["slowest"]]
        lines = [_ESCAPES.sub("", line).rstrip() for line in self._lines(self._log)]
        self.printed += lines
        self._last = next((line.strip() for line in reversed(lines) if line.strip()), self._last)

    def take_printed(self) -> list[str]:
        """Return the lines printed since the last call."""
        found, self.printed = self.printed, []
        return found

    def line(self) -> str:
        """Return how far the stage is, in a line."""
        if not self._state:
            return self._last
        on = self._state.get("on") or []
        where = f" ({' '.join(on) if len(on) < 5 else f'{len(on)} hosts'})" if on else ""
        parts = [f"{self._state['done']} of {self._state['of']}", self._state.get("play"), self._state.get("task")]
        return "  ".join(filter(None, parts)) + where

    def why_failed(self, how: str) -> str:
        """Return the failures that the stage named, else the end of its log, and how it ended."""
        if self.failures:
            return "\n\n".join(self.failures)
        lines = _ESCAPES.sub("", self._log.read_text(encoding="utf-8", errors="replace")).rstrip().splitlines()
        cut = [f"(the last {LOG_LINES} of {len(lines)} lines)"] if len(lines) > LOG_LINES else []
        return "\n".join([*cut, *lines[-LOG_LINES:], how])

    def briefs(self) -> list[str]:
        """Return each failure that the stage named in a few lines; the rest of it is in the log."""
        return [brief(failure) for failure in self.failures]


def brief(failure: str) -> str:
    """Return what failed, and of its message the lines that say why."""
    what, *lines = failure.splitlines()
    errors = [line for line in lines if _ERROR.match(line)]
    # What a playbook printed is part of the error of the test that ran it, and says more than that test's own line.
    fatal = [line for line in lines if _FATAL.search(line)]
    chosen = list(dict.fromkeys(fatal + errors)) or [line for line in lines if line.strip()]
    return "\n".join([what, *(f"  {line.strip()[:BRIEF_WIDTH]}" for line in chosen[:BRIEF_LINES])])


def junit(path: Path, name: str, runs: Iterable) -> None:
    """Write results as JUnit XML, a test case for each stage."""
    runs = list(runs)
    count = {state: sum(run.state == state for run in runs) for state in ("FAILED", "skipped")}
    attributes = {"name": name, "tests": str(len(runs)), "failures": str(count["FAILED"]),
                  "skipped": str(count["skipped"]), "time": f"{sum(run.seconds for run in runs):.3f}"}  # fmt: skip
    suite = ElementTree.Element("testsuite", attributes)
    for run in runs:
        case = ElementTree.SubElement(suite, "testcase", classname=name, name=run.stage.name, time=f"{run.seconds:.3f}")
        text = _FORBIDDEN.sub("?", run.text)
        if run.state == "FAILED":
            ElementTree.SubElement(case, "failure", message=text.partition("\n")[0]).text = text
        elif run.state == "skipped":
            ElementTree.SubElement(case, "skipped", message=text)
    path.parent.mkdir(parents=True, exist_ok=True)
    ElementTree.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)
