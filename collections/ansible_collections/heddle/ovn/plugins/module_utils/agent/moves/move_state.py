# SPDX-License-Identifier: Apache-2.0
"""Whether a playbook is moving addresses between hosts, a move whose steps interrupt connections.

The steps change addresses, routes and flows, so `heddle-host` would compare the host after each of them, and the next
step would wait for that. It compares once after the move instead, or when no step has come for a while.
"""

from __future__ import annotations

import contextlib
import os
import time

from ..plan_file import write_file

MARK = "/run/heddle/move"
# Since the last step; the steps of the slowest host lie between two of this one.
_LONGEST_SECONDS = 120.0


def note_move(path: str = MARK) -> None:
    """Note that a step begins or ends now."""
    write_file(path, f"{time.monotonic()}\n")


def end_move(path: str = MARK) -> None:
    """Note that the move is over; nothing happens if there was none."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def is_moving(path: str = MARK) -> bool:
    """Return whether a step was taken less than two minutes ago, and the plan has not been applied since."""
    try:
        with open(path, encoding="utf-8") as text:
            return 0 <= time.monotonic() - float(text.read()) < _LONGEST_SECONDS
    except (OSError, ValueError):
        return False
