# SPDX-License-Identifier: Apache-2.0
"""Writes manifests to the database: read, admit, write, and retry after a concurrent change."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from ...api import Problem
from ...ovsdb.protocol.client import Conflict
from ...store.database import commit, next_revision, operations, read
from ...store.snapshot import Snapshot

PATIENCE = 60.0
_LONGEST_PAUSE = 0.25


class AdmissionError(Exception):
    """The manifests cannot be admitted; `problems` says why, one entry per mistake."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems


class ConflictError(Exception):
    """Concurrent changes prevented the write for as long as was tried; the text says what to do."""


def store(
    client,
    decide: Callable[[Snapshot], tuple[Snapshot, list[Problem]]],
    *,
    write: bool,
    patience: float = PATIENCE,
) -> tuple[Snapshot, Snapshot]:
    """Write what `decide` returns to the database; return the snapshots before and after.

    `client` may be None: then the database does not exist yet and counts as empty, which only check mode may ask.
    When another writer commits first, everything is read and decided again, for `patience` seconds. Raises
    AdmissionError when `decide` finds problems, ConflictError when other writers kept committing all the time.
    """
    deadline = time.monotonic() + patience
    attempt = 0
    while True:
        attempt += 1
        before = read(client) if client else Snapshot()
        after, problems = decide(before)
        if problems:
            raise AdmissionError(problems)
        transaction = operations(before, after)
        if not transaction or not write:
            return before, after
        try:
            commit(client, transaction)
        except Conflict as conflict:
            if time.monotonic() >= deadline:
                raise ConflictError(
                    f"the state was changed by another client each time, {attempt} times in {patience:g} s; nothing "
                    f"was written; run it again when the others have finished (the server said: {conflict})"
                ) from conflict
            # Random, so that writers that were rejected together do not all retry together.
            time.sleep(random.uniform(0, min(_LONGEST_PAUSE, 0.005 * attempt)))
            continue
        after.revision = next_revision(before, after)
        return before, after
