# SPDX-License-Identifier: Apache-2.0
"""Whether the state database is as it was backed up: then a run that was cut off after stopping it is completed.

The note is beside the record of the host and not in the directory of the database, whose removal may be cut off too.
"""

from __future__ import annotations

import contextlib
import json
import os

from ..common.errors import EngineError
from ..common.files.atomic_file import replace_file
from ..common.files.json_file import read_json
from .footprint import LIBRARY, STATE_DATABASE

DATABASE_FILE = f"{STATE_DATABASE}/heddle.db"
NOTE_FILE = f"{LIBRARY}/state-saved.json"


def note_saved() -> None:
    """Note that the database, which is about to be stopped and removed, has been backed up. EngineError if it fails."""
    try:
        os.makedirs(os.path.dirname(NOTE_FILE), mode=0o755, exist_ok=True)
        replace_file(NOTE_FILE, json.dumps(_version()), single_writer=True)
    except OSError as error:
        raise EngineError(f"{NOTE_FILE} cannot be written: {error.strerror}") from error


def forget() -> None:
    """Remove the note once the database is gone; what prevents that does not matter: it goes with its directory."""
    with contextlib.suppress(OSError):
        os.unlink(NOTE_FILE)


def is_unsaved() -> bool:
    """Return whether there is a database that is not known to be as it was backed up; stopped, it cannot be any more.

    A note of a run that was given up says nothing about a database that was started and written to since.
    """
    found = _version()
    return found is not None and read_json(NOTE_FILE) != found


def _version() -> list[int] | None:
    """Return what differs once something is written to the database; None where there is none."""
    try:
        found = os.stat(DATABASE_FILE)
    except OSError:
        return None
    return [found.st_ino, found.st_size, found.st_mtime_ns]
