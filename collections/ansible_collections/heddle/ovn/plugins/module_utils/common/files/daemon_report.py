# SPDX-License-Identifier: Apache-2.0
"""The report of a daemon: a JSON file that it replaces, and a lock beside it that it holds while it runs."""

from __future__ import annotations

import contextlib
import fcntl
import json
from collections.abc import Callable, Iterator

from .atomic_file import replace_file
from .json_file import read_json


class Report:
    """The file at `path`, as the daemon writes it; `say` takes lines for the log."""

    def __init__(self, path: str, say: Callable[[str], None]) -> None:
        self.path, self._say = path, say
        self._failure = ""

    def write(self, entries: dict[str, dict]) -> bool:
        """Replace the file; return whether that worked. A reason why it did not is logged once.

        A full /run must not end a daemon: what it does besides the report is of more use.
        """
        try:
            replace_file(self.path, json.dumps(entries), mode=0o644, durable=False, single_writer=True)
        except OSError as error:
            if str(error) != self._failure:
                self._say(f"{self.path}: {error}; trying again")
            self._failure = str(error)
            return False
        self._failure = ""
        return True


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
    found = read_json(path)
    return found if isinstance(found, dict) else {}
