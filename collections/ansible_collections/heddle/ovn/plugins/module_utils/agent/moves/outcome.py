# SPDX-License-Identifier: Apache-2.0
"""What a host has changed for a move between two steps of a playbook, for the next step to report.

In a file of the running system, written and read under the host's lock.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import asdict

from ...common.change import Change, Outcome
from ..plan_file import write_file

FILE = "/run/heddle/moved.json"


def add_outcome(outcome: Outcome, path: str | None = None) -> None:
    """Keep changes for the next step."""
    if outcome.changed:
        kept = [asdict(change) for change in (take_outcome(path) + outcome).changes]
        write_file(path or FILE, json.dumps(kept, default=str) + "\n")


def take_outcome(path: str | None = None) -> Outcome:
    """Return the changes that were kept, which are kept no longer."""
    try:
        with open(path or FILE, encoding="utf-8") as text:
            found = Outcome(tuple(Change(**one) for one in json.load(text)))
    except (OSError, ValueError, TypeError):
        found = Outcome()
    with contextlib.suppress(OSError):
        os.unlink(path or FILE)
    return found
