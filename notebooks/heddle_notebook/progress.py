# SPDX-License-Identifier: Apache-2.0
"""What a running playbook shows in a cell: a live line where a person watches, else one line for each play.

A front end that a person uses accepts input (`allow_stdin` of the request, Jupyter's messaging protocol); papermill and
nbconvert do not.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from html import escape


def watched() -> bool:
    """Return whether a person watches in a front end that shows widgets."""
    try:
        from IPython import get_ipython
    except ImportError:
        return False
    kernel = getattr(get_ipython(), "kernel", None)
    return bool(getattr(kernel, "_allow_stdin", False))


class Progress:
    """Follows the events of ansible-runner; `draw` is called in the main thread."""

    def __init__(self, title: str, live: bool | None = None) -> None:
        self.title = title
        self.began = time.monotonic()
        self.play = self.task = ""
        self.counts: Counter[str] = Counter()
        self.hosts: set[str] = set()
        self.tasks = 0
        self._play_began = self.began
        self._widget = self._new_widget() if (watched() if live is None else live) else None

    @staticmethod
    def _new_widget():
        import ipywidgets
        from IPython.display import display

        widget = ipywidgets.HTML()
        display(widget)
        return widget

    def event(self, event: dict) -> None:
        """Follow one event."""
        kind, data = event["event"], event.get("event_data", {})
        if kind == "playbook_on_play_start":
            self._end_play()
            self.play, self.task = data.get("name", ""), ""
        elif kind == "playbook_on_task_start":
            self.task = data.get("task", "")
            self.tasks += 1
        elif kind in ("runner_on_ok", "runner_on_failed", "runner_on_unreachable"):
            self.hosts.add(data.get("host", ""))
            self.counts["changed"] += bool(data.get("res", {}).get("changed"))
            self.counts["failed"] += kind != "runner_on_ok" and not data.get("ignore_errors")

    def _end_play(self) -> None:
        now = time.monotonic()
        if self.play and self._widget is None:
            print(f"{now - self._play_began:7.1f} s  {self.title}: {self.play}", flush=True)
        self._play_began = now

    def draw(self) -> None:
        """Show how far it is."""
        if self._widget is not None:
            self._widget.value = self.html("runs")

    def end(self, state: str) -> None:
        """Show the last state."""
        self._end_play()
        self.play = ""
        if self._widget is not None:
            self._widget.value = self.html(state)
        else:
            print(f"{time.monotonic() - self.began:7.1f} s  {self.title}: {state}, {self.summary()}", flush=True)
            sys.stdout.flush()

    def summary(self) -> str:
        """Return counts in words."""
        counts = f"{self.counts['changed']} changed, {self.counts['failed']} failed"
        return f"{len(self.hosts)} hosts, {self.tasks} tasks, {counts}"

    def html(self, state: str) -> str:
        """Return the live line."""
        where = " · ".join(escape(part) for part in (self.play, self.task) if part and state == "runs")
        return (
            f"<div style='font-variant-numeric: tabular-nums'><b>{escape(self.title)}</b> {escape(state)} "
            f"{time.monotonic() - self.began:.0f} s · {escape(self.summary())}"
            f"<br><span style='opacity: 0.65'>{where or '&nbsp;'}</span></div>"
        )
