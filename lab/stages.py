# SPDX-License-Identifier: Apache-2.0
"""One line per stage, with the seconds it took."""

import contextlib
import time

# How often a long stage prints its progress when its output is not a terminal.
QUIET_SECONDS = 30


class Stages:
    """Prints a line when a stage ends, and a total at the end."""

    def __init__(self, stream):
        self.stream = stream
        self.began = time.monotonic()

    def line(self, name, text, seconds):
        # One write: stages that run side by side print whole lines.
        print(f"{name:<10} {text:<58} {seconds:6.1f} s\n", end="", file=self.stream, flush=True)

    def progress(self, name):
        """A function that shows what a stage does now: in place on a terminal, else a line for each first word."""
        began = shown = time.monotonic()
        terminal, kind = self.stream.isatty(), None

        def show(text):
            nonlocal shown, kind
            now = time.monotonic()
            before, kind = kind, text.split(" ", 1)[0]
            if terminal:
                print(f"\r{name:<10} {text:<58.58} {now - began:6.1f} s", end="\r", file=self.stream, flush=True)
            elif kind != before or now - shown >= QUIET_SECONDS:
                shown = now
                self.line(name, text, now - began)

        return show

    @contextlib.contextmanager
    def stage(self, name):
        """Yield a list; what the body appends to it becomes the text of the line."""
        began = time.monotonic()
        text = []
        yield text
        self.line(name, " ".join(text), time.monotonic() - began)

    def total(self, name, text):
        self.line(name, text, time.monotonic() - self.began)
