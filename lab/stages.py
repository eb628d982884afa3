# SPDX-License-Identifier: Apache-2.0
"""One line per stage, with the seconds it took."""

import contextlib
import time


class Stages:
    """Prints a line when a stage ends, and a total at the end."""

    def __init__(self, stream):
        self.stream = stream
        self.began = time.monotonic()

    def line(self, name, text, seconds):
        print(f"{name:<10} {text:<58} {seconds:6.1f} s", file=self.stream, flush=True)

    @contextlib.contextmanager
    def stage(self, name):
        """Yield a list; what the body appends to it becomes the text of the line."""
        began = time.monotonic()
        text = []
        yield text
        self.line(name, " ".join(text), time.monotonic() - began)

    def total(self, name, text):
        self.line(name, text, time.monotonic() - self.began)
