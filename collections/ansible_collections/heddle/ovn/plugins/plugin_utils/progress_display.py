# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Output targets: Ansible's default output to a log, a summary to the terminal, and a live line below it."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

try:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    HAS_RICH = True
except ImportError:
    HAS_RICH = False

from .progress_text import clean


def open_log(directory: Path, name: str):
    """Return a new, empty file that only its owner may read, and that replaces an older one; raises OSError.

    A run that still writes the older file continues to use it. A link of that name is not followed but replaced.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = directory / name
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
    return os.fdopen(descriptor, "w", encoding="utf-8", errors="replace", buffering=1)


class LogDisplay:
    """Replaces Ansible's display in the default callback: writes to a log, with `verbose` to the display as well.

    Methods that it does not have are those of the real display. Warnings are always shown.
    """

    def __init__(self, display, log, verbose: bool) -> None:
        self._real = display
        self.log = log
        self.verbose = verbose
        self._caught: list[str] | None = None

    def __getattr__(self, name: str):
        return getattr(self._real, name)

    def display(self, msg: str, *arguments, screen_only: bool = False, log_only: bool = False, **options) -> None:
        """Write a message as `Display.display` does."""
        if self._caught is not None:
            self._caught.append(msg)
        # The default callback sends its recap twice, once in colors for the screen.
        if self.log is not None and not screen_only:
            self.log.write(clean(msg) + ("\n" if options.get("newline", True) else ""))
        if self.verbose:
            self._real.display(msg, *arguments, screen_only=screen_only, log_only=log_only, **options)

    def banner(self, msg: str, color: str | None = None, cows: bool = True) -> None:
        """Write a headline."""
        if self.log is not None:
            self.log.write(f"\n{clean(msg)} {'*' * max(79 - len(msg), 3)}\n")
        if self.verbose:
            self._real.banner(msg, color=color, cows=cows)

    @contextlib.contextmanager
    def caught(self) -> Iterator[list[str]]:
        """Yield a list that collects the messages written meanwhile."""
        self._caught = []
        try:
            yield self._caught
        finally:
            self._caught = None

    def _always(self, method: str, *arguments, **options) -> None:
        """Let the real display format a message, and show the result whether verbose or not."""
        was, self.verbose = self.verbose, True
        try:
            getattr(type(self._real), method)(self, *arguments, **options)
        finally:
            self.verbose = was

    def _warning(self, warning) -> None:
        self._always("_warning", warning)

    def _deprecated(self, warning) -> None:
        self._always("_deprecated", warning)

    def _error(self, error, stderr: bool) -> None:
        # The callback shows the failure itself; the traceback is for the log only.
        type(self._real)._error(self, error, stderr=stderr)


class Stream:
    """Appends JSON lines to a file for another program; does nothing without a file."""

    def __init__(self, path: str | None) -> None:
        self._file = open(path, "a", encoding="utf-8", buffering=1) if path else None  # noqa: SIM115 - lives as long

    def send(self, **event) -> None:
        """Write one event as a line."""
        if self._file is not None:
            self._file.write(json.dumps(event, default=str) + "\n")


class Ticker:
    """Calls a function periodically from a thread of its own, until stopped.

    It does so under the lock of Ansible's display, which Ansible holds while it forks, so that no child process
    inherits a lock held by a thread that the child does not have.
    """

    def __init__(self, seconds: float, lock, call: Callable[[], None]) -> None:
        self._seconds, self._lock, self._call = seconds, lock, call
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.wait(self._seconds):
            with self._lock:
                if not self._over.is_set():
                    self._call()

    def stop(self) -> None:
        """Stop the calls."""
        self._over.set()


class Screen:
    """The terminal: a live line, drawn with rich, below the other output; plain lines where that is not possible."""

    REDRAW_SECONDS = 0.25

    def __init__(self, display, line: Callable[[], str], plain_seconds: float) -> None:
        self._display, self._line, self._plain_seconds = display, line, plain_seconds
        self.live = HAS_RICH and sys.stdout.isatty() and os.environ.get("TERM") not in (None, "", "dumb")
        self._drawn = None
        self._ticker: Ticker | None = None
        self._process = os.getpid()
        atexit.register(self._at_exit)

    def show(self, text: str, color: str | None = None, *, error: bool = False) -> None:
        """Write text above the live line."""
        self._display.display(text, color=color, stderr=error)

    def start(self) -> None:
        """Start the live line, unless it is shown already."""
        if self._ticker is not None:
            return
        lock = self._display._lock
        if self.live:
            with lock:
                console = Console(highlight=False, emoji=False, markup=False)
                self._drawn = Live(console=console, auto_refresh=False, transient=True, get_renderable=self._rendered)
                self._drawn.start(refresh=True)
            self._ticker = Ticker(self.REDRAW_SECONDS, lock, self._drawn.refresh)
        else:
            self._ticker = Ticker(self._plain_seconds, lock, self._print_line)

    def stop(self) -> None:
        """Remove the live line, for example for a question to the user."""
        if self._ticker is not None:
            self._ticker.stop()
            self._ticker = None
        if self._drawn is not None:
            with self._display._lock:
                self._drawn.stop()
                self._drawn = None

    def _rendered(self):
        return Text(self._line(), no_wrap=True, overflow="ellipsis", end="")

    def _print_line(self) -> None:
        self._display.display(self._line())
        sys.stdout.flush()

    def _at_exit(self) -> None:
        # An interrupted run sends no last event, but the terminal's cursor must be restored.
        if os.getpid() == self._process:
            self.stop()
