# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin, `-p scripts.pytest_progress`: writes how far the tests are for scripts.stages, which runs them."""

from __future__ import annotations

import collections
import json
import os
from pathlib import Path

import pytest

# Taken away before any test runs: playbooks that tests start are no stages.
STREAM = os.environ.pop("HEDDLE_PROGRESS_STREAM", None)
# Of those that took longest, how many are reported, and from how many seconds on.
SLOWEST, LEAST_SECONDS = 10, 1.0


class Reporter:
    """Writes an event for each test that starts, fails or is skipped, and one for the slowest ones."""

    def __init__(self, stream: Path) -> None:
        self._file = stream.open("a", encoding="utf-8", buffering=1)
        self._of = 0
        self._done: set[str] = set()
        self._seconds: collections.Counter[str] = collections.Counter()

    def _send(self, **event) -> None:
        self._file.write(json.dumps(event) + "\n")

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Count the tests."""
        self._of = len(session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node, ids: list[str]) -> None:
        """Count the tests, of which every worker collects all."""
        self._of = len(ids)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Report which test runs."""
        self._send(done=len(self._done), of=self._of, task=nodeid)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Count a test that is over."""
        self._done.add(nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Report failures in full, and reasons of skips."""
        self._seconds[report.nodeid] += report.duration
        if report.failed:
            sections = [f"--- {title}\n{text.rstrip()}" for title, text in report.sections]
            message = "\n".join([report.longreprtext, *sections])
            self._send(failed=f"{report.nodeid} ({report.when})", message=message)
        elif report.skipped:
            self._skip(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Report files that cannot be collected, and those that skip themselves."""
        if report.failed:
            self._send(failed=report.nodeid, message=report.longreprtext)
        elif report.skipped:
            self._skip(report)

    def pytest_sessionfinish(self) -> None:
        """Report the tests that took longest, with what their fixtures took."""
        longest = self._seconds.most_common(SLOWEST)
        self._send(slowest=[[name, seconds] for name, seconds in longest if seconds >= LEAST_SECONDS])

    def _skip(self, report) -> None:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
        self._send(skipped=reason.removeprefix("Skipped: "))


def pytest_configure(config: pytest.Config) -> None:
    """Register the reporter, except for in the workers of pytest-xdist, whose results come to the main process."""
    if STREAM and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Reporter(Path(STREAM)), "heddle-progress")
