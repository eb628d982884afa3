# SPDX-License-Identifier: Apache-2.0
"""Errors that a person can act on: in a notebook they are one sentence, not a traceback."""

from __future__ import annotations


class HeddleError(Exception):
    """What is wrong, and after a semicolon what to do."""

    def _render_traceback_(self) -> list[str]:
        """Return what IPython shows in place of a traceback."""
        return [f"{type(self).__name__}: {self}"]


class PlayFailed(HeddleError):
    """A playbook failed; `run` has its result."""

    def __init__(self, message: str, run) -> None:
        super().__init__(message)
        self.run = run


class Interrupted(HeddleError):
    """A playbook was interrupted; a new run completes what it began."""
