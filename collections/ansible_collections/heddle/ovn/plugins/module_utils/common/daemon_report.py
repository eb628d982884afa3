# SPDX-License-Identifier: Apache-2.0
"""The report of a daemon: a JSON file that it replaces, and a lock beside it that it holds while it runs."""

from __future__ import annotations

import contextlib
import fcntl
import json
from collections.abc import Iterator


@contextlib.contextmanager
def only_daemon(path: str) -> Iterator[None]:
    """Be the daemon that writes a report; BlockingIOError when there is one already."""
    with open(f"{path}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


def is_running(path: str) -> bool:
    """Return whether there is such a daemon."""
    try:
        with open(f"{path}.lock", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def read_report(path: str) -> dict[str, dict]:
    """Return the entries of a report; a file that is missing or damaged counts as empty."""
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
