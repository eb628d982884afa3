# SPDX-License-Identifier: Apache-2.0
"""What has to follow a change of the host, noted before the change: a run that is killed in between leaves the note.

The next run finds that the host is as planned, so it could not know what is still to be done. The notes are in a file
of the running system: a reboot ends tracked connections, and addresses are set and announced anew after it. The file is
written and read under the host's lock, and is there only while something is to be done.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable

from .plan_file import write_file

FILE = "/run/heddle/follow-ups.json"
# UDP connections to be ended (`service_connections.py`) and addresses to be announced (`announcements.py`).
CONNECTIONS, ANNOUNCEMENTS = "connections", "announcements"


def note(kind: str, items: Iterable[str]) -> None:
    """Note what has to follow the change that comes next, each as a text; UserError where it cannot be written."""
    _keep(kind, noted(kind) | set(items))


def noted(kind: str) -> set[str]:
    """Return what is noted of a kind; nothing where the file is damaged."""
    items = _read().get(kind, [])
    return {item for item in items if isinstance(item, str)} if isinstance(items, list) else set()


def done(kind: str, items: Iterable[str]) -> None:
    """Note that these need no follow-up any more."""
    _keep(kind, noted(kind).difference(items))


def are_pending() -> bool:
    """Return whether a run was killed before it had done what it noted; for the only writer."""
    return os.path.exists(FILE)


def _keep(kind: str, items: set[str]) -> None:
    if items == noted(kind) and (items or not are_pending()):
        return
    kept = {name: value for name, value in {**_read(), kind: sorted(items)}.items() if value}
    if kept:
        write_file(FILE, json.dumps(kept) + "\n")
    else:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(FILE)


def _read() -> dict:
    try:
        with open(FILE, encoding="utf-8") as text:
            found = json.load(text)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
